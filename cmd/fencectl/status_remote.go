package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/view"
)

// remoteFlags configure how agents in a cluster are asked.
type remoteFlags struct {
	env       *environment
	kube      *kubeFlags
	namespace string
	plugin    bool // fencectl was called by kubectl
}

func newRemoteFlags(env *environment, cmd *cobra.Command) *remoteFlags {
	r := &remoteFlags{env: env, kube: newKubeFlags(cmd), plugin: filepath.Base(env.name) == pluginName}
	cmd.Flags().StringVarP(&r.namespace, "namespace", "n", "", "with NODE: only agents in this `namespace` (default: all)")
	return r
}

// status runs fencectl next to the agent to print the status. With that node's clock, fencectl can distinguish an agent
// that hangs from one whose clock differs from ours.
func (r *remoteFlags) status(ctx context.Context, node string, shown *shownFlags, check bool, out *printer) error {
	args := []string{"status", "-o", out.format}
	for _, f := range []struct {
		set  bool
		flag string
	}{{shown.verbose, "--verbose"}, {shown.all, "--all"}, {check, "--check"}} {
		if f.set {
			args = append(args, f.flag)
		}
	}
	return r.beside(ctx, node, args...)
}

// beside runs fencectl next to the agent of a node, and prints its output.
func (r *remoteFlags) beside(ctx context.Context, node string, args ...string) error {
	pods, err := agentPods(ctx, r.kube.run, r.namespace, node)
	if err != nil {
		return err
	}
	text, err := r.kube.run(ctx, pods[0].inPod(args...)...)
	return errors.Join(writeText(r.env, harmless(text)), err)
}

// harmless is the output of a program in a pod in a form that is safe on a terminal: lines without control characters.
// A person who controls the node, or that pod, also controls that output.
func harmless(text []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' || unicode.Is(unicode.Cf, r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
}

// cannotBeAsked is the verdict for an agent that does not answer.
const cannotBeAsked = "cannot be asked"

// headTrouble is the heading of the column that is folded.
const headTrouble = "NOT IN ORDER"

// agentLine is the line of one agent.
type agentLine struct {
	Node    string   `json:"node"`
	Pod     string   `json:"pod"`
	Error   string   `json:"error,omitempty"` // the agent could not be asked, or is not in order
	Verdict string   `json:"verdict,omitempty"`
	Quorum  bool     `json:"quorum"`
	Counted uint32   `json:"counted"`
	Needed  uint32   `json:"needed"`
	Of      uint32   `json:"of"`
	Trouble []string `json:"trouble,omitempty"`

	Sees map[string]string `json:"sees,omitempty"` // state by node
}

// all asks every agent, and has a line for each.
func (r *remoteFlags) all(ctx context.Context, check bool, out *printer) error {
	pods, err := agentPods(ctx, r.kube.run, r.namespace, "")
	if err != nil {
		return err
	}
	lines := make([]agentLine, len(pods))
	askAll(len(pods), func(i int) { lines[i] = r.line(ctx, &pods[i]) })
	slices.SortStableFunc(lines, func(a, b agentLine) int { return view.Compare(a.Node, b.Node) })
	findOneWay(lines)
	if err := out.printFolded(r.env, lines, headTrouble, func(t *table) { allRows(t, lines) }); err != nil {
		return err
	}
	if bad := badLines(lines); check && len(bad) > 0 {
		return fmt.Errorf("check: %s", strings.Join(bad, "; "))
	}
	return nil
}

// askAll calls ask for each index below n, some of them at the same time.
func askAll(n int, ask func(i int)) {
	var asked sync.WaitGroup
	room := make(chan struct{}, clusterAsks)
	for i := range n {
		asked.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			ask(i)
		})
	}
	asked.Wait()
}

func (r *remoteFlags) line(ctx context.Context, p *agentPod) agentLine {
	l := agentLine{Node: p.node, Pod: p.name}
	text, err := r.kube.run(ctx, p.inPod("status", "--check", "-o", "json")...)
	st := new(fencingv1.Status)
	if bad := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, st); err == nil && bad != nil {
		err = fmt.Errorf("its answer: %w", bad)
	}
	if err != nil {
		l.Error = err.Error()
	}
	if st.GetSelf() == nil {
		return l
	}
	if name := st.GetSelf().GetName(); name != "" {
		l.Node = name
	}
	l.Sees = map[string]string{}
	for _, n := range st.GetNodes() {
		l.Sees[n.GetName()] = strings.TrimPrefix(n.GetState().String(), "NODE_STATE_")
	}
	m, tally := view.NewModel(st, st.GetTime().AsTime(), time.UTC), st.GetVerdict().GetTally()
	l.Verdict, l.Quorum = m.Verdict.Text, st.GetVerdict().GetQuorum()
	l.Counted, l.Needed, l.Of = tally.GetCounted(), tally.GetQuorum(), tally.GetExpected()
	for _, g := range m.Missing {
		l.Trouble = append(l.Trouble, g.Text())
	}
	for _, f := range m.Faults {
		said := make([]string, len(f.Spans))
		for i, s := range f.Spans {
			said[i] = s.Text
		}
		l.Trouble = append(l.Trouble, f.Label+" "+strings.Join(said, " "))
	}
	return l
}

// findOneWay finds the pairs in which only one node sees the other; nothing is known about an agent that could not be
// asked.
func findOneWay(lines []agentLine) {
	const sees = "REACHABLE"
	for i := range lines {
		a := &lines[i]
		for _, b := range lines {
			if state, knows := b.Sees[a.Node]; knows && state != sees && a.Sees[b.Node] == sees && a.Node != b.Node {
				a.Trouble = append(a.Trouble, "one way: it sees "+b.Node+", which does not see it")
			}
		}
	}
}

func badLines(lines []agentLine) (bad []string) {
	for _, l := range lines {
		if l.Error != "" {
			bad = append(bad, view.Clean(l.Node)+": "+view.Clean(l.Error))
		}
	}
	return bad
}

func allRows(t *table, lines []agentLine) {
	t.row("NODE", "VERDICT", "COUNTED", headTrouble)
	for _, l := range lines {
		if l.Verdict == "" {
			t.row(view.Clean(l.Node), cannotBeAsked, "?", view.Clean(l.Error))
			continue
		}
		trouble := l.Trouble
		if l.Error != "" {
			trouble = append([]string{l.Error}, trouble...)
		}
		if len(trouble) == 0 {
			trouble = []string{"-"}
		}
		t.row(view.Clean(l.Node), view.Clean(l.Verdict), fmt.Sprintf("%d of %d, %d needed", l.Counted, l.Of, l.Needed), view.Clean(strings.Join(trouble, "; ")))
	}
}
