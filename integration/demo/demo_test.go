package demo

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// walksAtOnce is more than there are processors: walks mostly wait.
const walksAtOnce = "12"

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(walksAtOnce) // fails for no number only
	}
	goleak.VerifyTestMain(m)
}

func names(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("n%d", i+1))
	}
	return out
}

// walk runs a scenario over the model, whose patience bounds all waits.
func walk(t *testing.T, m *model, scenario string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := Walk(t.Context(), m, Options{Scenario: scenario, Out: &out, limit: m.patience()})
	return out.String(), err
}

func TestScenariosHoldForIdealAgents(t *testing.T) {
	for _, nodes := range []int{2, 3, 4, 5} {
		for _, scenario := range Scenarios() {
			t.Run(fmt.Sprintf("%s/%d", scenario, nodes), func(t *testing.T) {
				t.Parallel()
				out, err := walk(t, newModel(t, names(nodes), ""), scenario)
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				if nodes == 4 && scenario == "all" {
					t.Log("\n" + out)
				}
			})
		}
	}
}

// The demo must fail for every way in which agents can be wrong, and say why.
func TestFaultsAreNoticed(t *testing.T) {
	for fault, want := range map[string]string{
		"both live":            "no half has won yet: n1 feed/split_won, n2 feed/split_won, n3 feed/split_won, n4 feed/split_won",
		"none lives":           "no half has won yet: n1 starve/split_lost, n2 starve/split_lost, n3 starve/split_lost, n4 starve/split_lost",
		"loser goes on":        "n3 hold/split_lost, n4 hold/split_lost",
		"LEFT for one network": "sent LEFT",
		"sick LUN":             "n1 has trouble with the LUN",
		"no events":            "n1 has not sent LEFT n3",
		"no heal":              "n1 is at feed/split_won",
		"grant is kept":        "n1 still holds the lease",
		"address missing":      "has no address on network data",
		"cut does nothing":     "no packet was dropped",
		"fenced too early":     "n1 calls it fenced",
		"agent ends":           "agent on node n2 ended: exit status 1",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			out, err := walk(t, newModel(t, names(4), fault), "all")
			var failed *failedError
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one with %q\n%s", err, want, out)
			}
			if !strings.Contains(out, "✗") || strings.Contains(out, "expectations held") {
				t.Errorf("output does not show the failure:\n%s", out)
			}
		})
	}
}

func TestKeepShowsHowToLookAndEndsWithTheContext(t *testing.T) {
	m := newModel(t, names(2), "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Walk(ctx, m, Options{Scenario: "up", Keep: true, Out: write, limit: m.patience()})
		write.Close()
	}()
	var out strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(out.String(), "Ctrl-C") {
		n, err := read.Read(buf)
		if err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		out.Write(buf[:n])
	}
	for _, want := range []string{
		"fencectl status --socket " + m.SocketPath("n1"), "grpcurl -plaintext -unix", "a hint",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	cancel()
	_, _ = io.Copy(io.Discard, read)
	if err := <-ended; err != nil {
		t.Errorf("kept demo ended with %v, want the scenario's outcome", err)
	}
}

func TestInterruptIsNoFailedExpectation(t *testing.T) {
	m := newModel(t, names(4), "none lives")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	err := Walk(ctx, m, Options{Scenario: "all", Out: io.Discard})
	var failed *failedError
	if err == nil || errors.As(err, &failed) || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("error %v, want an interruption", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Nodes: 4, Bin: "nowhere", Out: io.Discard}
	for name, c := range map[string]struct {
		spoil func(*Options)
		want  string
	}{
		"one node":    {func(o *Options) { o.Nodes = 1 }, "possible are 2 to 16"},
		"many nodes":  {func(o *Options) { o.Nodes = 99 }, "possible are 2 to 16"},
		"no scenario": {func(o *Options) { o.Scenario = "storm" }, "there are all, up"},
		"no programs": {func(*Options) {}, "make build"},
	} {
		o := good
		c.spoil(&o)
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
