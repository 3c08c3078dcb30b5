package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/api/view"
)

// eventSources lists this project's programs that create Events.
var eventSources = []string{controllerName, "fencing-agent"}

// headDetail is the heading of the column that is folded.
const headDetail = "DETAIL"

// happening is one event that the cluster knows about a node.
type happening struct {
	At   time.Time `json:"at"`
	Node string    `json:"node"`
	From string    `json:"from"` // the object or program that reports it
	What string    `json:"what"` // one word
	Text string    `json:"text"`
}

func (e *explanation) happened(at time.Time, node, from, what, text string) {
	e.Happened = append(e.Happened, happening{at, node, from, what, text})
}

// events reads the Events of this project's programs about Nodes, and about their fencing by devices.
func (x *explainer) events(ctx context.Context, e *explanation) error {
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
	for _, v := range list.Items {
		if !slices.Contains(eventSources, v.ReportingComponent) {
			continue
		}
		node := v.InvolvedObject.Name
		if v.InvolvedObject.Kind == "NodeFence" {
			node = strings.TrimPrefix(node, "node-fence-")
		}
		at, _ := time.Parse(time.RFC3339, cmp.Or(v.Series.LastObservedTime, v.EventTime, v.LastTimestamp, v.Metadata.CreationTimestamp)) // zero: not known
		text := v.Message
		if v.Series.Count > 1 {
			text += fmt.Sprintf(" (%d times)", v.Series.Count)
		}
		e.happened(at, node, v.ReportingComponent, v.Reason, text)
	}
	return nil
}

// policyAllows is the condition of a NodeFence that shows whether limits for storms hold it up.
const policyAllows = "PolicyAllows"

// fences reads the fencing by devices: what has happened, and the present state for the node that is explained. If
// something cannot be read, the output mentions it: unknown is not the same as nothing.
func (x *explainer) fences(ctx context.Context, e *explanation) error {
	list, err := x.objects(ctx, e, "nodefences.fencing-agent.io", "NodeFence")
	if err != nil {
		e.Devices = &devicesSay{Error: err.Error()}
		return err
	}
	for _, f := range list {
		if e.Node == "" || f.Spec.NodeName != e.Node {
			continue
		}
		e.Devices = &devicesSay{Step: f.Status.Step, Phase: f.Status.Phase, Retries: f.Status.Retries, Message: f.Status.Message}
		for _, c := range f.Status.Conditions {
			if c.Type == policyAllows && c.Status == "False" {
				e.Devices.Held, e.Devices.Message = c.Reason, c.Message
			}
		}
		if p := f.Status.Proof; p != nil {
			e.Devices.Proof = p.Kind
			if p.Contradicted {
				e.Devices.Proof += ", contradicted"
			}
		}
	}
	return nil
}

func (x *explainer) remediations(ctx context.Context, e *explanation) error {
	_, err := x.objects(ctx, e, "fencingremediations.fencing-agent.io", "FencingRemediation")
	return err
}

// noSuchKind is kubectl's message about a resource that the API server does not have.
const noSuchKind = "doesn't have a resource type"

// objects reads the objects of one of this project's resources. A cluster without the resource is not an error.
func (x *explainer) objects(ctx context.Context, e *explanation, resource, kind string) ([]fencingObject, error) {
	var list struct{ Items []fencingObject }
	if err := x.get(ctx, &list, "get", resource, "--all-namespaces", "-o", "json"); err != nil {
		if strings.Contains(err.Error(), noSuchKind) {
			return nil, nil
		}
		return nil, err
	}
	for _, o := range list.Items {
		node := cmp.Or(o.Spec.NodeName, o.Metadata.Name) // a remediation has the name of its node
		boot := "the boot that the Node showed"
		if o.Spec.Boot != "" {
			boot = "boot " + o.Spec.Boot
		}
		e.happened(o.Metadata.CreationTimestamp, node, kind, "Created", boot)
		if o.Status.Step != "" {
			e.happened(o.Status.StepStartedAt, node, kind, "Step", o.Status.Step)
			e.happened(cmp.Or(o.Status.PhaseEndedAt, o.Status.StepStartedAt), node, kind, "Phase", joined(o.Status.Step+" "+o.Status.Phase, o.Status.Message))
		}
		for _, j := range o.Status.Jobs {
			e.happened(cmp.Or(j.FinishedAt, j.StartedAt), node, kind, "Job", joined(j.Method+" "+j.Action+" "+j.State, j.Message))
		}
		if p := o.Status.Proof; p != nil {
			said := p.Kind
			if p.Contradicted {
				said += ", contradicted: the kubelet of that boot was heard after that"
			}
			e.happened(p.At, node, kind, "Proof", said)
		}
		for _, s := range o.Status.Conditions {
			e.happened(s.LastTransitionTime, node, kind, s.Type, joined(s.Status, s.Reason, s.Message))
		}
	}
	return list.Items, nil
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
		Retries                     int
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

// joined joins the words that are not empty.
func joined(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")
}

// timeline prints one line for each event, of one node or of all.
func (e *explanation) timeline(t *table, zone *time.Location) {
	if len(e.Happened) == 0 {
		t.row("no events are known")
		return
	}
	t.row("TIME", "NODE", "FROM", "WHAT", headDetail)
	for _, h := range e.Happened {
		at := "unknown"
		if !h.At.IsZero() {
			at = h.At.In(zone).Format(time.DateTime)
		}
		t.row(at, view.Clean(h.Node), view.Clean(h.From), view.Clean(h.What), view.Clean(h.Text))
	}
}
