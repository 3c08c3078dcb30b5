package agentsim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/status"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// powerOff cuts a machine's power: nothing is announced, and the machine does not come back.
func (m *machine) powerOff() {
	w := m.w
	w.mu.Lock()
	if !m.powered {
		w.mu.Unlock()
		return
	}
	m.powered = false
	w.check.fired(m)
	p := m.proc
	w.mu.Unlock()
	w.note(m.name, "loses power")
	w.conditionsChanged(func() {})
	m.end(p)
}

// tellDeaths makes one node lose its power in a quarter of the groups. Operators confirm that on one node or on
// several, soon or late. The confirmations are true: agents may also believe a false one about a node that is cut off
// and runs, because no program could tell the difference.
func (s *Schedule) tellDeaths(rng *rand.Rand) {
	if s.Nodes < 3 || rng.IntN(4) > 0 {
		return
	}
	victim := rng.IntN(s.Nodes)
	at := s.Events[rng.IntN(len(s.Events))].At + time.Duration(rng.Int64N(int64(10*time.Second)))
	s.Events = append(s.Events, Event{At: at, Kind: PowerOff, Nodes: []int{victim}})
	for range 1 + rng.IntN(3) {
		teller := (victim + 1 + rng.IntN(s.Nodes-1)) % s.Nodes
		at += time.Duration(rng.Int64N(int64(20 * time.Second)))
		s.Events = append(s.Events, Event{At: at, Kind: Confirm, Nodes: []int{teller, victim}})
	}
	s.inOrder(at + 20*time.Second)
}

// confirm lets an operator report on the first node that the second one is dead in its last boot.
func (w *world) confirm(teller, victim *machine) {
	w.mu.Lock()
	p, boot := teller.proc, victim.boot
	w.mu.Unlock()
	w.ask(p, func(ctx context.Context, control fencingv1.FencingControlClient) {
		_, err := control.ConfirmDead(ctx, &fencingv1.ConfirmDeadRequest{
			Node: victim.name, BootNonce: fmt.Sprintf("%016x", boot), Proof: fencingv1.Proof_PROOF_OPERATOR, By: "operator",
		})
		if err != nil {
			w.note(teller.name, "does not believe that "+victim.name+" is dead: "+status.Convert(err).Message())
			return
		}
		w.note(teller.name, "believes that "+victim.name+" is dead")
	})
}

// ask lets an operator make a request to an agent, if one runs.
func (w *world) ask(p *process, what func(context.Context, fencingv1.FencingControlClient)) {
	if p == nil {
		return
	}
	w.group.Go(func() {
		ctx, cancel := context.WithTimeout(w.ctx, 30*time.Second)
		defer cancel()
		conn := p.client()
		defer conn.Close()
		what(ctx, fencingv1.NewFencingControlClient(conn))
	})
}

// anybody allows every caller: the kernel does not know who uses the sockets of this world.
func anybody(context.Context) error { return nil }
