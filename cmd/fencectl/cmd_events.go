package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

// eventSources are the programs of the project that make Events.
var eventSources = []string{controllerName, "fencing-agent"}

// headDetail is above what is folded.
const headDetail = "DETAIL"

// happening is one thing that a cluster tells of a node.
type happening struct {
	At   time.Time `json:"at"`
	Node string    `json:"node"`
	From string    `json:"from"` // who says so
	What string    `json:"what"` // one word
	Text string    `json:"text"`
}

// chronicle is what is printed.
type chronicle struct {
	Happenings []happening `json:"happenings"`
	Errors     []string    `json:"errors,omitempty"` // why some of this is missing
}

func newEventsCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events [NODE]",
		Short: "Show what the cluster tells of its nodes, in order of time",
		Long: `Show, in order of time, what the cluster tells of NODE, or of all nodes: the Events of agents, of fencing-controller and
of fencing by devices; the deaths that agents have written on Nodes, or told fencing-controller; the last change of each
Node's Ready; when the taint was set; and the conditions of NodeFences and FencingRemediations.

Kubernetes keeps Events for an hour, unless it was told otherwise. A death stands on the Nodes until the node is back.
What happened before a reset is in "fencectl history" on the node.

It asks kubectl, with your rights and your kubeconfig: to list Nodes, Events and ConfigMaps of fencing-controller, and
the project's resources where they are. What cannot be had hides nothing else; then it fails in the end.`,
		Example: "  fencectl events\n  fencectl events n4 --context prod",
		Args:    optional,
	}
	kube := newKubeFlags(cmd)
	namespace := cmd.Flags().StringP("namespace", "n", controllerName, "the `namespace` of fencing-controller")
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		node := ""
		if len(args) > 0 {
			node = args[0]
		}
		x := &explainer{namespace: *namespace, now: time.Now(), kubectl: kube.run}
		c, err := chronicleOf(cmd.Context(), x, node)
		if err != nil {
			return err
		}
		if err := out.printFolded(env, c, headDetail, func(t *table) { c.rows(t, env.zone()) }); err != nil {
			return err
		}
		if len(c.Errors) > 0 {
			return fmt.Errorf("could not ask for everything: %s", strings.Join(c.Errors, "; "))
		}
		return nil
	}
	return cmd
}

// chronicleOf asks for all that is told of a node, or with "" of all nodes.
func chronicleOf(ctx context.Context, x *explainer, node string) (*chronicle, error) {
	c := &chronicle{Happenings: []happening{}}
	if err := c.nodes(ctx, x, node); err != nil {
		return nil, err
	}
	for _, from := range []func(context.Context, *explainer) error{
		c.events,
		func(ctx context.Context, x *explainer) error {
			return c.objects(ctx, x, "nodefences.fencing-agent.io", "NodeFence")
		},
		func(ctx context.Context, x *explainer) error {
			return c.objects(ctx, x, "fencingremediations.fencing-agent.io", "FencingRemediation")
		},
	} {
		if err := from(ctx, x); err != nil {
			c.Errors = append(c.Errors, err.Error())
		}
	}
	c.Happenings = slices.DeleteFunc(c.Happenings, func(h happening) bool { return node != "" && h.Node != node })
	slices.SortStableFunc(c.Happenings, func(a, b happening) int {
		return cmp.Or(a.At.Compare(b.At), view.Compare(a.Node, b.Node), cmp.Compare(a.From, b.From))
	})
	return c, nil
}

func (c *chronicle) add(at time.Time, node, from, what, text string) {
	c.Happenings = append(c.Happenings, happening{at, node, from, what, text})
}

// timed is a Node with the times of what changed on it.
type timed struct {
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Spec struct {
		Taints []struct {
			Key, Value string
			TimeAdded  time.Time
		}
	}
	Status struct {
		Conditions []struct {
			Type, Status, Reason string
			LastTransitionTime   time.Time
		}
	}
}

// nodes reads what stands on the Nodes.
func (c *chronicle) nodes(ctx context.Context, x *explainer, node string) error {
	var list struct{ Items []timed }
	if err := x.get(ctx, &list, "get", "nodes", "-o", "json"); err != nil {
		return err
	}
	if node != "" && !slices.ContainsFunc(list.Items, func(n timed) bool { return n.Metadata.Name == node }) {
		return fmt.Errorf("there is no Node %s", view.Clean(node))
	}
	reports, err := x.reports(ctx)
	if err != nil {
		c.Errors = append(c.Errors, err.Error())
	}
	for _, n := range list.Items {
		name := n.Metadata.Name
		text, tells := n.Metadata.Annotations[deaths.Annotation]
		told, garbled := wordsOf(text, tells, reports[name], x.now)
		if garbled {
			c.add(time.Time{}, name, name, "Garbled", "its annotation "+deaths.Annotation+" cannot be read")
		}
		for _, d := range told {
			what := "boot " + d.Boot + " has ended, proof " + d.Proof
			if !d.heard.IsZero() {
				what += ", told to fencing-controller"
			}
			c.add(d.At, d.Node, name, "Death", what)
		}
		for _, t := range n.Spec.Taints {
			if t.Key == recovery.TaintKey && !t.TimeAdded.IsZero() {
				c.add(t.TimeAdded, name, "taint", "Taint", "out-of-service="+t.Value)
			}
		}
		if boot := n.Metadata.Annotations[recovery.NoteKey]; boot != "" {
			c.add(time.Time{}, name, controllerName, "Disputed", "boot "+boot+" was called dead, and was heard after that")
		}
		for _, s := range n.Status.Conditions {
			if s.Type == "Ready" {
				c.add(s.LastTransitionTime, name, "node", "Ready", joined(s.Status, s.Reason))
			}
		}
	}
	return nil
}

// events are those about Nodes, and about what fences them by devices, of the project's programs.
func (c *chronicle) events(ctx context.Context, x *explainer) error {
	var list struct {
		Items []struct {
			Reason, Message, ReportingComponent, EventTime, LastTimestamp string
			InvolvedObject                                                struct{ Kind, Name string }
			Series                                                        struct {
				Count            int
				LastObservedTime string
			}
			Metadata struct{ CreationTimestamp string }
		}
	}
	if err := x.get(ctx, &list, "get", "events", "--namespace", "default", "-o", "json"); err != nil {
		return err
	}
	for _, e := range list.Items {
		if !slices.Contains(eventSources, e.ReportingComponent) {
			continue
		}
		node := e.InvolvedObject.Name
		if e.InvolvedObject.Kind == "NodeFence" {
			node = strings.TrimPrefix(node, "node-fence-")
		}
		at, _ := time.Parse(time.RFC3339, cmp.Or(e.Series.LastObservedTime, e.EventTime, e.LastTimestamp, e.Metadata.CreationTimestamp)) // zero: not known
		text := e.Message
		if e.Series.Count > 1 {
			text += fmt.Sprintf(" (%d times)", e.Series.Count)
		}
		c.add(at, node, e.ReportingComponent, e.Reason, text)
	}
	return nil
}

// objects are those of a resource of the project, which a cluster need not have.
func (c *chronicle) objects(ctx context.Context, x *explainer, resource, kind string) error {
	var list struct{ Items []fencingObject }
	if err := x.get(ctx, &list, "get", resource, "--all-namespaces", "-o", "json"); err != nil {
		if strings.Contains(err.Error(), noSuchKind) {
			return nil
		}
		return err
	}
	for _, o := range list.Items {
		node := cmp.Or(o.Spec.NodeName, o.Metadata.Name) // a remediation is named like its node
		boot := "the boot that the Node showed"
		if o.Spec.Boot != "" {
			boot = "boot " + o.Spec.Boot
		}
		c.add(o.Metadata.CreationTimestamp, node, kind, "Created", boot)
		if o.Status.Step != "" {
			c.add(o.Status.StepStartedAt, node, kind, "Step", o.Status.Step)
			c.add(orThen(o.Status.PhaseEndedAt, o.Status.StepStartedAt), node, kind, "Phase", joined(o.Status.Step+" "+o.Status.Phase, o.Status.Message))
		}
		for _, j := range o.Status.Jobs {
			c.add(orThen(j.FinishedAt, j.StartedAt), node, kind, "Job", joined(j.Method+" "+j.Action+" "+j.State, j.Message))
		}
		if p := o.Status.Proof; p != nil {
			said := p.Kind
			if p.Contradicted {
				said += ", contradicted: the kubelet of that boot was heard after that"
			}
			c.add(p.At, node, kind, "Proof", said)
		}
		for _, s := range o.Status.Conditions {
			c.add(s.LastTransitionTime, node, kind, s.Type, joined(s.Status, s.Reason, s.Message))
		}
	}
	return nil
}

// orThen is the first of two times, if it is known.
func orThen(at, then time.Time) time.Time {
	if at.IsZero() {
		return then
	}
	return at
}

// fencingObject is a NodeFence or a FencingRemediation.
type fencingObject struct {
	Metadata struct {
		Name              string
		CreationTimestamp time.Time
	}
	Spec   struct{ NodeName, Boot string }
	Status struct {
		Step, Phase, Message        string
		StepStartedAt, PhaseEndedAt time.Time
		Jobs                        []struct {
			Method, Action, State, Message string
			StartedAt, FinishedAt          time.Time
		}
		Proof *struct {
			Kind         string
			At           time.Time
			Contradicted bool
		}
		Conditions []struct {
			Type, Status, Reason, Message string
			LastTransitionTime            time.Time
		}
	}
}

// joined is what there is of some words.
func joined(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")
}

func (c *chronicle) rows(t *table, zone *time.Location) {
	if len(c.Happenings) == 0 {
		t.row("nothing is told")
		return
	}
	t.row("TIME", "NODE", "FROM", "WHAT", headDetail)
	for _, h := range c.Happenings {
		at := "unknown"
		if !h.At.IsZero() {
			at = h.At.In(zone).Format(time.DateTime)
		}
		t.row(at, view.Clean(h.Node), view.Clean(h.From), view.Clean(h.What), view.Clean(h.Text))
	}
}
