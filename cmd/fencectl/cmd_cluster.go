package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/view"
)

// clusterView is what all agents of a cluster say of each other.
type clusterView struct {
	Agents []agentSay `json:"agents"`
	OneWay []oneWay   `json:"oneWay"` // the first sees the second, which does not see the first
}

// agentSay is one agent's word.
type agentSay struct {
	Node    string            `json:"node"`
	Pod     string            `json:"pod"`
	Error   string            `json:"error,omitempty"` // it could not be asked
	Verdict string            `json:"verdict,omitempty"`
	Quorum  bool              `json:"quorum"`
	Sees    map[string]string `json:"sees,omitempty"` // state by node
}

type oneWay struct {
	Sees string `json:"sees"`
	Not  string `json:"not"`
}

// cluster asks the agents by kubectl exec.
type cluster struct {
	namespace string
	socket    string
	kubectl   func(ctx context.Context, args ...string) ([]byte, error)
}

func newClusterCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster [NODE]",
		Short: "Ask all agents of a Kubernetes cluster, and show who sees whom",
		Long: `Ask the agent in each pod of the DaemonSet, by kubectl exec, and show its verdict and, as a matrix, which node sees
which:

  +  answers          .  UNREACHABLE     F  FENCED
  S  STOPPED          ?  the agent of this row could not be asked

A ! behind it marks a one-way fault: the node of the row sees the node of the column, which answers and does not see it.
With NODE it is that node's row and column alone. An agent on a dead node cannot be asked; kubectl gives up after 15
seconds.

It runs kubectl with your rights and your kubeconfig: to list pods, and to create pods/exec. Agents of a package are not
asked.`,
		Example: "  fencectl cluster\n  fencectl cluster n4 --context prod -n fencing-agent",
		Args:    optional,
	}
	kube := newKubeFlags(cmd)
	c := &cluster{kubectl: kube.run}
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", "", "only agents in this `namespace` (default: all)")
	cmd.Flags().StringVar(&c.socket, "socket", "", "`path` of each agent's socket in its pod (default: where an agent of a DaemonSet listens)")
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, err := c.view(cmd.Context())
		if err != nil {
			return err
		}
		node := ""
		if len(args) > 0 {
			if node = args[0]; !slices.Contains(v.names(), node) {
				return fmt.Errorf("no agent runs on, or knows, %q: the nodes are %s", view.Clean(node), view.Clean(strings.Join(v.names(), ", ")))
			}
		}
		return out.print(env.stdout, v, func(t *table) { v.rows(t, node) })
	}
	return cmd
}

// view asks all agents, some at once.
func (c *cluster) view(ctx context.Context) (*clusterView, error) {
	pods, err := agentPods(ctx, c.kubectl, c.namespace, "")
	if err != nil {
		return nil, err
	}
	v := &clusterView{Agents: make([]agentSay, len(pods)), OneWay: []oneWay{}}
	askAll(len(pods), func(i int) {
		v.Agents[i] = agentSay{Node: pods[i].node, Pod: pods[i].name}
		v.Agents[i].ask(ctx, c, &pods[i])
	})
	slices.SortStableFunc(v.Agents, func(a, b agentSay) int { return view.Compare(a.Node, b.Node) })
	v.findOneWay()
	return v, nil
}

// ask gets one agent's status.
func (a *agentSay) ask(ctx context.Context, c *cluster, p *agentPod) {
	args := []string{"status", "-o", "json"}
	if c.socket != "" {
		args = append(args, "--socket", c.socket)
	}
	text, err := c.kubectl(ctx, p.inPod(args...)...)
	st := new(fencingv1.Status)
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, st)
	}
	if err != nil {
		a.Error = err.Error()
		return
	}
	a.Verdict, a.Quorum, a.Sees = view.Permission(st).Text, st.GetVerdict().GetQuorum(), map[string]string{}
	if name := st.GetSelf().GetName(); name != "" {
		a.Node = name
	}
	for _, n := range st.GetNodes() {
		a.Sees[n.GetName()] = strings.TrimPrefix(n.GetState().String(), "NODE_STATE_")
	}
}

// findOneWay finds the pairs of which one sees the other alone; of an agent that could not be asked nothing is known.
func (v *clusterView) findOneWay() {
	by := map[string]*agentSay{}
	for i := range v.Agents {
		if a := &v.Agents[i]; a.Error == "" {
			by[a.Node] = a
		}
	}
	for i := range v.Agents {
		a := &v.Agents[i]
		for _, name := range v.names() {
			b := by[name]
			if name == a.Node || b == nil || a.Sees[name] != "REACHABLE" {
				continue
			}
			if state, knows := b.Sees[a.Node]; knows && state != "REACHABLE" {
				v.OneWay = append(v.OneWay, oneWay{a.Node, name})
			}
		}
	}
}

// names are all nodes that have an agent or that one knows.
func (v *clusterView) names() (names []string) {
	for _, a := range v.Agents {
		names = append(names, a.Node)
		for n := range a.Sees {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, view.Compare)
	return slices.Compact(names)
}

// rows is the matrix; of one node its row and column.
func (v *clusterView) rows(t *table, node string) {
	names := v.names()
	columns := names
	if node != "" {
		columns = []string{node}
	}
	head := []any{"NODE", "VERDICT"}
	for _, n := range columns {
		head = append(head, view.Clean(n))
	}
	t.row(head...)
	for i := range v.Agents {
		a := &v.Agents[i]
		cells := []any{view.Clean(a.Node), view.Clean(a.Verdict)}
		if a.Error != "" {
			cells[1] = cannotBeAsked // why is below: it would make the matrix wider than a terminal
		}
		for _, n := range columns {
			cells = append(cells, v.cell(a, n))
		}
		t.row(cells...)
	}
	if node != "" {
		for _, a := range v.Agents {
			if a.Node == node {
				for _, n := range names {
					t.row("it sees", view.Clean(n), v.cell(&a, n))
				}
			}
		}
	}
	for _, a := range v.Agents {
		if a.Error != "" {
			t.row(view.Clean(a.Node), cannotBeAsked+": "+view.Clean(a.Error))
		}
	}
	for _, o := range v.OneWay {
		t.row("one way", fmt.Sprintf("%s sees %s, which does not see %s", view.Clean(o.Sees), view.Clean(o.Not), view.Clean(o.Sees)))
	}
}

func (v *clusterView) cell(a *agentSay, name string) string {
	signs := map[string]string{"REACHABLE": "+", "UNREACHABLE": ".", "FENCED": "F", "STOPPED": "S"}
	state, listed := a.Sees[name]
	switch sign := signs[state]; {
	case a.Error != "":
		return "?"
	case name == a.Node:
		return "="
	case !listed:
		return " "
	case sign == "":
		return strings.ToLower(state)
	case slices.Contains(v.OneWay, oneWay{a.Node, name}):
		return sign + "!"
	default:
		return sign
	}
}
