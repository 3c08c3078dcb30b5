package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fencing-agent/fencing-agent/api/client"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// timeLayout is the time of an event to the millisecond; those of other nodes' logs are
// compared with it.
const timeLayout = "2006-01-02 15:04:05.000"

// writeLine writes a message as JSON on one line.
func writeLine(env *environment, m proto.Message) error {
	data, err := marshal(m)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, data); err != nil {
		return fmt.Errorf("print as JSON: %w", err)
	}
	line.WriteByte('\n')
	return writeText(env, line.Bytes())
}

func writeText(env *environment, text []byte) error {
	if _, err := env.stdout.Write(text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// eventLog prints the set of available nodes and its changes. It outlives connections.
type eventLog struct {
	env   *environment
	json  bool
	color bool
	width int                        // of the longest name so far
	known map[string]*fencingv1.Node // as printed; nil: nothing was yet
}

func newEventLog(env *environment, format string) *eventLog {
	return &eventLog{env: env, json: format == formatJSON, color: colorful(env)}
}

// follow prints until the stream ends, and returns why it did.
func (l *eventLog) follow(ctx context.Context, conn *agentConn, connected func()) error {
	ctx, answered, cancel := conn.impatient(ctx)
	defer cancel()
	var printing error // not the agent's
	err := client.Stream(ctx, conn,
		func(all *fencingv1.AllNodes, _ uint64) error {
			answered()
			connected()
			printing = l.set(all)
			return printing
		},
		func(ev *fencingv1.Event) error {
			printing = l.event(ev)
			return printing
		})
	if printing != nil {
		return printing
	}
	return conn.explain(ctx, err)
}

// set takes the whole set: all of it the first time, what differs later.
func (l *eventLog) set(all *fencingv1.AllNodes) error {
	before, first := l.known, l.known == nil
	l.known = make(map[string]*fencingv1.Node, len(all.GetNodes()))
	for _, n := range all.GetNodes() {
		l.known[n.GetName()] = n
		l.width = max(l.width, len(clean(n.GetName())))
	}
	if l.json {
		return writeLine(l.env, all)
	}
	p, now := &page{color: l.color}, l.env.clock()
	if first && len(l.known) == 0 {
		p.text(now.In(l.env.zone()).Format(timeLayout)+"  NOW   ", 0, span{"no node is available", warn})
	}
	for _, name := range slices.Sorted(maps.Keys(l.known)) {
		n, old := l.known[name], before[name]
		switch {
		case first:
			l.line(p, now, span{"NOW", plain}, n, "")
		case old == nil:
			l.line(p, now, span{"JOIN", good}, n, "while disconnected")
		case !maps.Equal(n.GetAddresses(), old.GetAddresses()):
			l.line(p, now, span{"JOIN", good}, n, "addresses changed while disconnected")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if l.known[name] == nil {
			l.line(p, now, span{"LEFT", bad}, before[name], "while disconnected")
		}
	}
	return writeText(l.env, p.buf.Bytes())
}

// event takes one change.
func (l *eventLog) event(ev *fencingv1.Event) error {
	n := ev.GetNode()
	l.width = max(l.width, len(clean(n.GetName())))
	old, kind, note := l.known[n.GetName()], span{ev.GetType().String(), plain}, ""
	at := ev.GetTime().AsTime()
	switch ev.GetType() {
	case fencingv1.EventType_JOIN:
		kind.style = good
		l.known[n.GetName()] = n
		if prev := n.GetPrevDisconnectTime(); old != nil {
			note = "addresses changed"
		} else if prev != nil {
			note = "was away for " + brief(at.Sub(prev.AsTime()))
		}
	case fencingv1.EventType_LEFT:
		kind.style = bad
		delete(l.known, n.GetName())
	}
	if l.json {
		return writeLine(l.env, ev)
	}
	p := &page{color: l.color}
	l.line(p, at, kind, n, note)
	return writeText(l.env, p.buf.Bytes())
}

// line writes one line, which is never wrapped: grep is its reader, too.
func (l *eventLog) line(p *page, at time.Time, kind span, n *fencingv1.Node, note string) {
	addresses := make([]string, 0, len(n.GetAddresses()))
	for _, network := range slices.Sorted(maps.Keys(n.GetAddresses())) {
		addresses = append(addresses, network+"="+n.GetAddresses()[network])
	}
	name := clean(n.GetName())
	text := strings.Repeat(" ", l.width-len(name)) + "  " + strings.Join(addresses, " ")
	if note != "" {
		text += "  (" + note + ")"
	}
	p.paint(span{at.In(l.env.zone()).Format(timeLayout) + "  ", plain})
	p.paint(kind)
	p.paint(span{strings.Repeat(" ", max(0, 4-len(kind.text))) + "  ", plain})
	p.paint(span{name, plain})
	p.paint(span{strings.TrimRight(text, " "), plain})
	p.buf.WriteByte('\n')
}
