package agentsim

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// powerOff is a plug that is pulled: nobody is told, and nothing comes back.
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

// confirm has an operator on the first of two nodes tell that the second one is dead, by the boot that it had last.
func (w *world) confirm(teller, victim *machine) {
	w.mu.Lock()
	p, boot := teller.proc, victim.boot
	w.mu.Unlock()
	if p == nil {
		return
	}
	w.group.Go(func() {
		ctx, cancel := context.WithTimeout(w.ctx, 30*time.Second)
		defer cancel()
		dial := func(context.Context, string) (net.Conn, error) { return p.socket.dial() }
		conn, err := grpc.NewClient("passthrough:///"+teller.name, grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			panic("agentsim: client of " + teller.name + ": " + err.Error()) // nothing but the options can be wrong
		}
		defer conn.Close()
		_, err = fencingv1.NewFencingControlClient(conn).ConfirmDead(ctx, &fencingv1.ConfirmDeadRequest{
			Node: victim.name, BootNonce: fmt.Sprintf("%016x", boot), Proof: fencingv1.Proof_PROOF_OPERATOR, By: "operator",
		})
		if err != nil {
			w.note(teller.name, "does not believe that "+victim.name+" is dead: "+status.Convert(err).Message())
			return
		}
		w.note(teller.name, "believes that "+victim.name+" is dead")
	})
}

// anybody may tell: the sockets of this world are no sockets of a kernel.
func anybody(context.Context) error { return nil }
