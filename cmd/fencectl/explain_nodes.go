package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

// kubeNode is the part of a Node that is read, with the times of changes.
type kubeNode struct {
	Metadata struct {
		Name, UID   string
		Annotations map[string]string
	}
	Spec struct {
		Taints []struct {
			Key, Value string
			TimeAdded  time.Time
		}
	}
	Status struct {
		NodeInfo   struct{ BootID string }
		Conditions []struct {
			Type, Status, Reason string
			LastTransitionTime   time.Time
		}
	}
}

// ready is the status of the Node's condition Ready; empty: it has none.
func (n *kubeNode) ready() string {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status
		}
	}
	return ""
}

// nodes reads the Nodes: the state of the one that is explained, which nodes they call dead, and when that changed.
func (x *explainer) nodes(ctx context.Context, e *explanation) error {
	var list struct{ Items []kubeNode }
	if err := x.get(ctx, &list, "get", "nodes", "-o", "json"); err != nil {
		return err
	}
	if e.Node != "" && !slices.ContainsFunc(list.Items, func(n kubeNode) bool { return n.Metadata.Name == e.Node }) {
		return fmt.Errorf("there is no Node %s", view.Clean(e.Node))
	}
	told, err := x.reports(ctx)
	if err != nil {
		e.noReports = err.Error()
		e.Errors = append(e.Errors, e.noReports)
	}
	for i := range list.Items {
		n := &list.Items[i]
		x.deathsOn(n, told[n.Metadata.Name], e)
		e.about(n)
	}
	return nil
}

// deathsOn adds the deaths that a Node names.
func (x *explainer) deathsOn(n *kubeNode, told *deaths.Report, e *explanation) {
	name := n.Metadata.Name
	text, tells := n.Metadata.Annotations[deaths.Annotation]
	list, garbled := wordsOf(text, tells, told, x.now)
	if garbled {
		e.Garbled = append(e.Garbled, name)
		e.happened(time.Time{}, name, name, "Garbled", "its annotation "+deaths.Annotation+" cannot be read")
	}
	for _, w := range list {
		what, a := "boot "+w.Boot+" has ended, proof "+w.Proof, accusation{By: name, Boot: w.Boot, Proof: w.Proof, At: w.At, Stale: w.stale}
		if !w.heard.IsZero() {
			a.Heard = &w.heard
			what += ", told to fencing-controller"
		}
		e.happened(w.At, w.Node, name, "Death", what)
		if w.Node == e.Node {
			e.Told = append(e.Told, a)
		}
	}
}

// about records what a Node shows about itself.
func (e *explanation) about(n *kubeNode) {
	name, disputed := n.Metadata.Name, n.Metadata.Annotations[recovery.NoteKey]
	if name == e.Node {
		e.Boot, e.Disputed, e.Ready = deaths.Boot(n.Status.NodeInfo.BootID), disputed, n.ready()
	}
	for _, t := range n.Spec.Taints {
		if t.Key != recovery.TaintKey {
			continue
		}
		if name == e.Node {
			e.Tainted, e.Taint = true, t.Value
		}
		if !t.TimeAdded.IsZero() {
			e.happened(t.TimeAdded, name, "taint", "Taint", "out-of-service="+t.Value)
		}
	}
	if disputed != "" {
		e.happened(time.Time{}, name, controllerName, "Disputed", "boot "+disputed+" was called dead, and was heard after that")
	}
	for _, s := range n.Status.Conditions {
		if s.Type == "Ready" {
			e.happened(s.LastTransitionTime, name, "node", "Ready", joined(s.Status, s.Reason))
		}
	}
}

// reports returns the deaths that agents have reported to fencing-controller, by the agents' Nodes. The controller
// keeps them in ConfigMaps if agents do not use the API server, and so write no annotations (docs/adr/0061). With an
// error, the reports that could be read are returned as well.
func (x *explainer) reports(ctx context.Context) (map[string]*deaths.Report, error) {
	var list struct {
		Items []struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Data map[string]string
		}
	}
	if err := x.get(ctx, &list, "get", "configmaps", "--namespace", x.namespace, "-l", deaths.ReportLabel+"="+deaths.ReportValue, "-o", "json"); err != nil {
		return nil, err
	}
	var failed []error
	told := map[string]*deaths.Report{}
	for _, c := range list.Items {
		r, err := deaths.ReportIn(c.Metadata.Name, c.Metadata.Labels, c.Data)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		told[r.Node] = &r
	}
	return told, errors.Join(failed...)
}

// word is a death that a Node names.
type word struct {
	deaths.Death
	heard time.Time // when fencing-controller received it; zero: it is on the Node
	stale bool      // that is too long ago to count
}

// wordsOf returns the deaths that a Node reports: in its annotation or, if that is later, in its agent's report.
// garbled means that the annotation cannot be read.
func wordsOf(annotation string, tells bool, told *deaths.Report, now time.Time) (list []word, garbled bool) {
	if told != nil && told.Over == deaths.Digest(annotation) {
		age := now.Sub(told.Heard)
		for _, d := range told.Deaths {
			list = append(list, word{d, told.Heard, age > deaths.Valid || age < -deaths.Valid})
		}
		return list, false
	}
	stand, err := deaths.Decode(annotation)
	for _, d := range stand {
		list = append(list, word{Death: d})
	}
	return list, tells && err != nil
}
