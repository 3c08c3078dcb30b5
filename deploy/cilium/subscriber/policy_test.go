package subscriber

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/api/client"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

func state(inForce bool, available, left string) client.State {
	st := client.State{InForce: inForce, Available: map[string]*fencingv1.Node{}, Left: map[string]time.Time{}}
	for _, n := range strings.Fields(available) {
		st.Available[n] = &fencingv1.Node{Name: n}
	}
	for _, n := range strings.Fields(left) {
		st.Left[n] = time.Time{}
	}
	return st
}

func updateOf(inForce bool, available, left string) client.Update {
	st := state(inForce, available, left)
	st.Connected = inForce
	return client.Update{State: st}
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name    string
		st      client.State
		percent int
		mode    mode
		out     string
	}{
		{"nobody has left", state(true, "own a b", ""), 50, modeAgent, ""},
		{"one has left", state(true, "own a", "b"), 50, modeAgent, "b"},
		{"silent", state(false, "own a", "b"), 50, modeNoAnswer, ""},
		{"own node left", state(true, "a", "b own"), 90, modeNoQuorum, ""},
		{"own node unknown", state(true, "a c d", "b"), 50, modeNoQuorum, ""},
		{"exactly half", state(true, "own a", "b c"), 50, modeAgent, "b c"},
		{"more than half", state(true, "own a", "b c d"), 50, modeTooMany, ""},
		{"a smaller share", state(true, "own a b", "c"), 20, modeTooMany, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := judge(tt.st, "own", tt.percent)
			if got := strings.Join(slices.Sorted(maps.Keys(r.out)), " "); r.mode != tt.mode || got != tt.out {
				t.Errorf("%s [%s] (%s), want %s [%s]", r.mode, got, r.reason, tt.mode, tt.out)
			}
			if (r.reason == "") != (r.mode == modeAgent) {
				t.Errorf("mode %s has the reason %q", r.mode, r.reason)
			}
		})
	}
	st := state(false, "", "")
	st.Err = errors.New("no such socket")
	if r := judge(st, "own", 50); r.reason != "no such socket" {
		t.Errorf("the reason is %q", r.reason)
	}
}

func TestFlagsThatCannotWork(t *testing.T) {
	good := defaultConfig
	good.FencingAgentSocket = "/run/a.sock"
	if err := good.validate(); err != nil {
		t.Fatal(err)
	}
	for i, spoil := range []func(*Config){
		func(c *Config) { c.FencingAgentSocket = "a.sock" },
		func(c *Config) { c.FencingAgentHold = time.Millisecond },
		func(c *Config) { c.FencingAgentAllLeft = "perhaps" },
		func(c *Config) { c.FencingAgentMaxLeftPercent = 100 },
		func(c *Config) { c.FencingAgentMaxLeftPercent = 0 },
	} {
		c := good
		spoil(&c)
		if err := c.validate(); err == nil || !strings.HasPrefix(err.Error(), "--fencing-agent-") {
			t.Errorf("case %d: %v", i, err)
		}
	}
}

func TestDescribe(t *testing.T) {
	out := nodeSet{}
	for i := range 7 {
		out[fmt.Sprint("n", i)] = struct{}{}
	}
	if got := describe(out); got != "out are n0 n1 n2 n3 n4 ..." {
		t.Error(got)
	}
}
