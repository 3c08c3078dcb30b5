//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
)

// lunLive prints the state of a LUN repeatedly.
type lunLive struct {
	env    *environment
	json   bool
	size   func() (width, height int) // of the terminal; nil: the output is not a terminal
	shown  int
	warned map[string]bool
	damage []string // of the last state
}

func newLunLive(env *environment, out *printer) *lunLive {
	return &lunLive{env: env, json: out.format == formatJSON, size: terminalSize(env), warned: map[string]bool{}}
}

// show prints one state. Warnings are printed only once, except on a terminal, where each screen replaces the one
// before.
func (l *lunLive) show(r *lunadmin.Report) error {
	l.damage = r.Damage
	if l.json {
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("print result: %w", err)
		}
		return writeText(l.env, append(line, '\n'))
	}
	var b bytes.Buffer
	t := &table{tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)}
	lunTable(t, r)
	if err := t.tabs.Flush(); err != nil {
		return fmt.Errorf("print result: %w", err)
	}
	now := l.env.clock().In(l.env.zone()).Format(timeLayout)
	defer func() { l.shown++ }()
	if l.size == nil {
		for _, w := range r.Warnings {
			if !l.warned[w] {
				l.warned[w] = true
				l.env.warn("warning: " + w)
			}
		}
		return writeText(l.env, fmt.Appendf(nil, "-- %s\n%s", now, b.Bytes()))
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	width, height := l.size()
	return writeText(l.env, screen(b.Bytes(), width, height, l.shown == 0, "-- "+now+", Ctrl-C ends"))
}
