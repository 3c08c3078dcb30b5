package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	good := []string{"--name", "a", "--namespace", "ops", "--peers", "gossip:7947"}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no peers":        {[]string{"--name", "a", "--namespace", "ops"}, "--peers is missing"},
		"no namespace":    {[]string{"--name", "a", "--peers", "x:1"}, "--namespace is missing"},
		"a word too many": {append(good, "now"), `unexpected argument "now"`},
		"another hash":    {append(good, "--ownership", "leader"), `--ownership is "leader"`},
		"a long timeout":  {append(good, "--probe-timeout", "11s"), "is longer than --probe-interval"},
		"a level":         {append(good, "--log-level", "loud"), `--log-level is "loud"`},
	} {
		var out, err bytes.Buffer
		if code := run(c.args, &out, &err); code != 2 || !strings.Contains(err.String(), c.want) || strings.Count(err.String(), "\n") != 1 {
			t.Errorf("%s: exit %d, %q, want %q", name, code, err.String(), c.want)
		}
	}
	f, err := parse(good, nil)
	if err != nil || f.gossip.Name != "a" || f.gossip.Port != 7947 || len(f.gossip.Peers) != 1 {
		t.Errorf("%+v %v", f, err)
	}
}

func TestHelp(t *testing.T) {
	var out, err bytes.Buffer
	if code := run([]string{"--help"}, &out, &err); code != 0 || err.Len() > 0 {
		t.Errorf("exit %d, %q", code, err.String())
	}
	for _, want := range []string{"Example:", "-peers", "-key-file", "-ownership", "docs/operator.md"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help lacks %q", want)
		}
	}
}
