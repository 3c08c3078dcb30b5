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
	"github.com/fencing-agent/fencing-agent/api/view"
)

// timeLayout shows the time of an event with milliseconds, for comparison with the logs of other nodes.
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

// eventLog prints the set of available nodes and its changes. It is used for several connections.
type eventLog struct {
	env   *environment
	json  bool
	color bool
	width int                        // of the longest name so far
	known map[string]*fencingv1.Node // as printed; nil: nothing was printed yet
}

func newEventLog(env *environment, format string) *eventLog {
	return &eventLog{env: env, json: format == formatJSON, color: colorful(env)}
}

// follow prints until the stream ends, and returns why it did.
func (l *eventLog) follow(ctx context.Context, conn *agentConn, connected func()) error {
	ctx, answered, cancel := conn.impatient(ctx)
	defer cancel()
	var printing error // not an error of the agent
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

// set prints the whole set the first time, and later only the differences.
func (l *eventLog) set(all *fencingv1.AllNodes) error {
	before, first := l.known, l.known == nil
	l.known = make(map[string]*fencingv1.Node, len(all.GetNodes()))
	for _, n := range all.GetNodes() {
		l.known[n.GetName()] = n
		l.width = max(l.width, len(view.Clean(n.GetName())))
	}
	if l.json {
		return writeLine(l.env, all)
	}
	p, now := &view.Page{Color: l.color}, l.env.clock()
	if first && len(l.known) == 0 {
		p.Text(now.In(l.env.zone()).Format(timeLayout)+"  NOW   ", 0, view.Say("no node is available", view.Warn))
	}
	for _, name := range slices.Sorted(maps.Keys(l.known)) {
		n, old := l.known[name], before[name]
		switch {
		case first:
			l.line(p, now, view.Say("NOW", view.Plain), n, "")
		case old == nil:
			l.line(p, now, view.Say("JOIN", view.Good), n, "while disconnected")
		case !maps.Equal(n.GetAddresses(), old.GetAddresses()):
			l.line(p, now, view.Say("JOIN", view.Good), n, "addresses changed while disconnected")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if l.known[name] == nil {
			l.line(p, now, view.Say("LEFT", view.Bad), before[name], "while disconnected")
		}
	}
	return writeText(l.env, p.Bytes())
}

// event prints one change.
func (l *eventLog) event(ev *fencingv1.Event) error {
	n := ev.GetNode()
	l.width = max(l.width, len(view.Clean(n.GetName())))
	old, kind, note := l.known[n.GetName()], view.Say(ev.GetType().String(), view.Plain), ""
	at := ev.GetTime().AsTime()
	switch ev.GetType() {
	case fencingv1.EventType_JOIN:
		kind.Style = view.Good
		l.known[n.GetName()] = n
		if prev := n.GetPrevDisconnectTime(); old != nil {
			note = "addresses changed"
		} else if prev != nil {
			note = "was away for " + view.Brief(at.Sub(prev.AsTime()))
		}
	case fencingv1.EventType_LEFT:
		kind.Style = view.Bad
		delete(l.known, n.GetName())
	}
	if l.json {
		return writeLine(l.env, ev)
	}
	p := &view.Page{Color: l.color}
	l.line(p, at, kind, n, note)
	return writeText(l.env, p.Bytes())
}

// line writes one line, which is never wrapped, so that grep finds it.
func (l *eventLog) line(p *view.Page, at time.Time, kind view.Span, n *fencingv1.Node, note string) {
	addresses := make([]string, 0, len(n.GetAddresses()))
	for _, network := range slices.Sorted(maps.Keys(n.GetAddresses())) {
		addresses = append(addresses, network+"="+n.GetAddresses()[network])
	}
	name := view.Clean(n.GetName())
	text := strings.Repeat(" ", l.width-len(name)) + "  " + strings.Join(addresses, " ")
	if note != "" {
		text += "  (" + note + ")"
	}
	p.Paint(view.Say(at.In(l.env.zone()).Format(timeLayout)+"  ", view.Plain))
	p.Paint(kind)
	p.Paint(view.Say(strings.Repeat(" ", max(0, 4-len(kind.Text)))+"  ", view.Plain))
	p.Paint(view.Say(name, view.Plain))
	p.Paint(view.Say(strings.TrimRight(text, " "), view.Plain))
	p.Gap()
}
