package agentsim

import (
	"context"
	"os"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// Picture is the answer of an agent to a request for its status.
type Picture struct {
	Node   string
	At     time.Time         // when the agent was asked
	Status *fencingv1.Status // nil: the agent did not answer
}

// look asks a machine's agent for its status, as fencectl does.
func (w *world) look(m *machine) {
	w.mu.Lock()
	p := m.proc
	w.mu.Unlock()
	picture := Picture{Node: m.name, At: time.Now()}
	if p != nil {
		picture.Status = p.ask()
	}
	w.mu.Lock()
	w.looks = append(w.looks, picture)
	w.mu.Unlock()
}

func (p *process) ask() *fencingv1.Status {
	conn := p.client()
	defer conn.Close()
	ctx, cancel := context.WithTimeout(p.m.w.ctx, time.Second)
	defer cancel()
	st, err := fencingv1.NewFencingStatusClient(conn).GetStatus(ctx, &emptypb.Empty{})
	if err != nil {
		return nil
	}
	return st
}

func (w *world) disable(node int) {
	if err := os.WriteFile(disablePath(w.dir, node), nil, 0o600); err != nil {
		panic("agentsim: " + err.Error()) // as in writeConfig
	}
}

func (w *world) enable(node int) {
	if err := os.Remove(disablePath(w.dir, node)); err != nil {
		panic("agentsim: " + err.Error())
	}
}
