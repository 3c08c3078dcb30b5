package agentsim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/status"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// powerOff pulls a plug: nothing is told, and nothing comes back.
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

// tellDeaths makes one node lose its power in a quarter of the groups, and operators confirm that, on one node or on
// several, soon or late. The confirmations are true. Agents may also believe a confirmation about a node that is cut
// off and runs: no program could tell the difference.
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

// confirm is a confirmation of an operator on the first of two nodes that the second one is dead, in its last boot.
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

// ask makes an operator ask an agent for something, if one runs.
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

// anybody allows every caller: the sockets of this world are not a kernel's.
func anybody(context.Context) error { return nil }
