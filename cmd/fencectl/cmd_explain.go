package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

const (
	controllerName  = "fencing-controller"
	controllerPages = ":9120/proxy/nodes"
)

func newExplainCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [NODE]",
		Short: "Show what the cluster knows of a node, what is done about it, and what happened",
		Long: `Show what the cluster knows of a node's death: who calls it dead, for which boot, the taint, what each
replica of fencing-controller does at this moment or waits for; and below that, in order of time, what the cluster
tells of it. Without NODE it is that of all nodes:

the Events of agents, of fencing-controller and of fencing by devices; the deaths that agents have written on Nodes, or
told fencing-controller; the last change of each Node's Ready; when the taint was set; and the conditions of NodeFences
and FencingRemediations. Kubernetes keeps Events for an hour, unless it was told otherwise. A death stands on the Nodes
or, where agents do not ask the API server, in ConfigMaps that fencing-controller keeps beside itself, until the node
is back. What happened before a reset is in "fencectl history" on the node.

It asks kubectl, with your rights and your kubeconfig: to list Nodes, Events, pods and ConfigMaps of
fencing-controller, and the project's resources where they are. Without the right to get pods/proxy what the replicas
wait for is missing; all else is shown. What else cannot be had hides nothing either, but then it fails in the end,
for the explanation is not whole.`,
		Example: "  fencectl explain node-4\n  fencectl explain --context prod",
		Args:    optional,
	}
	kube := newKubeFlags(cmd)
	namespace := cmd.Flags().StringP("namespace", "n", controllerName, "the `namespace` of fencing-controller")
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		x := &explainer{namespace: *namespace, now: time.Now(), kubectl: kube.run}
		e, err := x.explain(cmd.Context(), strings.Join(args, "")) // there is one at most
		if err != nil {
			return err
		}
		if err := e.print(env, out); err != nil {
			return err
		}
		if len(e.Errors) > 0 {
			return fmt.Errorf("could not ask for everything: %s", strings.Join(e.Errors, "; "))
		}
		return nil
	}
	return cmd
}

// print prints what is known about the node, if a node was named, above the timeline.
func (e *explanation) print(env *environment, out *printer) error {
	if out.format == formatTable && e.Node != "" {
		var b bytes.Buffer
		if err := out.print(&b, e, func(t *table) { e.rows(t, env.zone()) }); err != nil {
			return err
		}
		text := b.Bytes()
		if w := width(env); w > 0 {
			text = foldCells(text, labels, w)
		}
		if err := writeText(env, append(text, '\n')); err != nil {
			return err
		}
	}
	return out.printFolded(env, e, headDetail, func(t *table) { e.timeline(t, env.zone()) })
}

// labels is the width of the first column, which contains "called dead".
const labels = len("called dead") + 2

// foldCells folds the last column, which begins at from, to a terminal's width.
func foldCells(text []byte, from, width int) []byte {
	p := &view.Page{Width: width}
	for line := range strings.Lines(string(text)) {
		at := min(from, len(line)-1)
		p.Text(line[:at], at, view.Say(line[at:], view.Plain))
	}
	return p.Bytes()
}

// explanation is the result that is printed.
type explanation struct {
	Node     string       `json:"node,omitempty"` // empty: all nodes; then only the timeline is printed
	Boot     string       `json:"boot,omitempty"` // in the form used in deaths
	Ready    string       `json:"ready,omitempty"`
	Tainted  bool         `json:"tainted"`            // it has the taint out-of-service
	Taint    string       `json:"taint,omitempty"`    // the value of that taint
	Disputed string       `json:"disputed,omitempty"` // a boot that was called dead, and was heard afterwards
	Told     []accusation `json:"told"`
	Garbled  []string     `json:"garbled,omitempty"` // Nodes whose annotation of deaths cannot be read
	Outlook  []string     `json:"outlook,omitempty"` // what an agent of another node expects, as long as the node is not called dead
	Devices  *devicesSay  `json:"devices,omitempty"` // what is done to the node by its devices
	Volumes  []volumeSay  `json:"volumes,omitempty"` // volumes that are attached to the node, unless it is Ready and has no taint
	Replicas []replicaSay `json:"replicas"`
	Happened []happening  `json:"happened"`         // in order of time
	Errors   []string     `json:"errors,omitempty"` // why a part of this is missing

	noReplicas, noEvents, noReports, noVolumes string // why these are not known
}

// accusation is one Node's report of the node's death.
type accusation struct {
	By    string    `json:"by"`
	Boot  string    `json:"boot"`
	Proof string    `json:"proof"`
	At    time.Time `json:"at"`

	Heard *time.Time `json:"heard,omitempty"` // when fencing-controller received the report; nil: the report is on the Node
	Stale bool       `json:"stale,omitempty"` // the report is too old to count
}

// devicesSay is the state in the node's NodeFence.
type devicesSay struct {
	Step    string `json:"step"`
	Phase   string `json:"phase"`
	Retries int    `json:"retries"`
	Proof   string `json:"proof,omitempty"`
	Message string `json:"message,omitempty"`
	Held    string `json:"held,omitempty"`  // the limit for storms that delays it
	Error   string `json:"error,omitempty"` // why the state is not known
}

type replicaSay struct {
	Pod  string `json:"pod"`
	Says string `json:"says"`
}

// explainer asks kubectl.
type explainer struct {
	namespace string
	now       time.Time
	kubectl   func(ctx context.Context, args ...string) ([]byte, error)
}

func (x *explainer) explain(ctx context.Context, node string) (*explanation, error) {
	e := &explanation{Node: node, Told: []accusation{}, Replicas: []replicaSay{}, Happened: []happening{}}
	if err := x.nodes(ctx, e); err != nil {
		return nil, err
	}
	type ask struct {
		of  func(context.Context, *explanation) error
		why *string
	}
	asks := []ask{{x.fences, new(string)}, {x.remediations, new(string)}, {x.events, &e.noEvents}}
	if node != "" {
		asks = append(asks, ask{x.outlook, new(string)}, ask{x.volumes, &e.noVolumes}, ask{x.replicas, &e.noReplicas})
	}
	for _, ask := range asks { // a part that cannot be read does not hide the rest
		if err := ask.of(ctx, e); err != nil {
			*ask.why = err.Error()
			e.Errors = append(e.Errors, err.Error())
		}
	}
	e.Happened = slices.DeleteFunc(e.Happened, func(h happening) bool { return node != "" && h.Node != node })
	slices.SortStableFunc(e.Happened, func(a, b happening) int {
		return cmp.Or(a.At.Compare(b.At), view.Compare(a.Node, b.Node), cmp.Compare(a.From, b.From))
	})
	return e, nil
}

func (x *explainer) get(ctx context.Context, into any, args ...string) error {
	return askJSON(ctx, x.kubectl, into, args...)
}

// replicas asks all replicas at the same time: one on a dead node does not answer, which is part of the explanation.
func (x *explainer) replicas(ctx context.Context, e *explanation) error {
	var pods struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := x.get(ctx, &pods, "get", "pods", "--namespace", x.namespace, "-l", "app.kubernetes.io/name="+controllerName, "-o", "json"); err != nil {
		return err
	}
	e.Replicas = make([]replicaSay, len(pods.Items))
	var asked sync.WaitGroup
	for i, p := range pods.Items {
		asked.Go(func() { e.Replicas[i] = x.replica(ctx, e.Node, p.Metadata.Name) })
	}
	asked.Wait()
	return nil
}

func (x *explainer) replica(ctx context.Context, node, pod string) replicaSay {
	text, err := x.kubectl(ctx, "get", "--raw", "/api/v1/namespaces/"+x.namespace+"/pods/"+pod+controllerPages)
	says := "does nothing about it"
	switch {
	case errors.Is(err, errKubectlSlow):
		says = errKubectlSlow.Error()
	case err != nil:
		says = "no answer: " + err.Error()
	}
	for line := range strings.Lines(string(text)) {
		if name, rest, _ := strings.Cut(line, " "); name == node {
			says = strings.Join(strings.Fields(rest), " ")
		}
	}
	return replicaSay{pod, says}
}

func (e *explanation) rows(t *table, zone *time.Location) {
	t.row("node", e.Node+", boot "+cmp.Or(e.Boot, "unknown")+", Ready "+cmp.Or(view.Clean(e.Ready), "unknown"))
	t.row("taint", e.taint())
	if e.Disputed != "" {
		t.row("dispute", e.dispute())
	}
	switch {
	case len(e.Told)+len(e.Garbled) > 0 || e.noReports != "":
	case e.Ready == "True":
		t.row("called dead", "by nobody")
	default: // a person who looks wants to know this
		t.row("called dead", "by nobody: nothing is done until agents have proof that this boot has ended")
		for _, line := range e.Outlook {
			t.row("outlook", view.Clean(line))
		}
		if len(e.Outlook) == 0 {
			t.row("outlook", "fencectl status on a node that runs says how long a proof takes")
		}
		t.row("faster", "switch it off, and tell that by fencectl confirm-dead (docs/fencectl.md); or have it fenced by its devices, a NodeFence (docs/power.md)")
	}
	for _, name := range e.Garbled {
		t.row("called dead", "by "+view.Clean(name)+"? its annotation "+deaths.Annotation+" cannot be read")
	}
	if e.noReports != "" {
		t.row("called dead", "by others? what agents have told fencing-controller cannot be read: "+view.Clean(e.noReports))
	}
	for _, d := range e.Told {
		which := "this boot"
		if d.Boot != e.Boot {
			which = "another boot, " + d.Boot
		}
		switch {
		case d.Stale:
			which += ", told to fencing-controller, and not again for so long that it counts no longer"
		case d.Heard != nil:
			which += ", told to fencing-controller"
		}
		t.row("called dead", fmt.Sprintf("by %s at %s, proof %s, %s", view.Clean(d.By), d.At.In(zone).Format(time.TimeOnly), view.Clean(d.Proof), which))
	}
	if d := e.Devices; d != nil && d.Error != "" {
		t.row("devices", "unknown, its NodeFence cannot be read: "+view.Clean(d.Error))
	} else if d != nil {
		t.row("devices", fmt.Sprintf("%s %s, %d retries, proof %s: %s", view.Clean(d.Step), view.Clean(d.Phase), d.Retries, cmp.Or(view.Clean(d.Proof), "none yet"), cmp.Or(view.Clean(d.Message), "goes on")))
		if d.Held != "" {
			t.row("held up", "by "+view.Clean(d.Held)+": docs/power.md, Storms")
		}
	}
	for _, v := range e.Volumes {
		t.row("volume", v.text(zone))
	}
	if e.noVolumes != "" {
		t.row("volume", "unknown: "+view.Clean(e.noVolumes))
	}
	switch {
	case e.noReplicas != "":
		t.row("controller", "unknown: "+e.noReplicas)
	case len(e.Replicas) == 0:
		t.row("controller", "no replica is there: nobody acts on a death")
	}
	for _, r := range e.Replicas {
		t.row("controller", view.Clean(r.Pod)+": "+view.Clean(r.Says))
	}
	if e.noEvents != "" {
		t.row("events", "unknown: "+view.Clean(e.noEvents))
	}
}

// dispute describes the meaning of the annotation.
func (e *explanation) dispute() string {
	if e.Disputed == e.Boot {
		return "this boot was called dead, and was heard after that; see the alert FencingControllerDisputed in docs/controller.md"
	}
	return view.Clean(e.Disputed) + ": an earlier boot; it comes off by itself"
}

// taint describes the meaning of the taint's value.
func (e *explanation) taint() string {
	boot, disputed := recovery.BootOf(e.Taint)
	switch {
	case !e.Tainted:
		return "none: no pod is taken off"
	case boot == "":
		return cmp.Or(view.Clean(e.Taint), "without a value") + ": somebody else's, which the controller leaves alone"
	case disputed && boot == e.Boot:
		return view.Clean(e.Taint) + ": the boot may run; see the alert FencingControllerDisputed in docs/controller.md"
	case disputed:
		return view.Clean(e.Taint) + ": an earlier boot; it comes off by itself"
	case boot == e.Boot:
		return view.Clean(e.Taint) + ": pods are taken off, and none is started in a new boot"
	}
	return view.Clean(e.Taint) + ": an earlier boot; it comes off when the node is Ready and its old pods are gone"
}
