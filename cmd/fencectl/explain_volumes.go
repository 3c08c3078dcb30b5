package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/view"
)

// lost reports whether the node's pods and volumes may be needed elsewhere.
func (e *explanation) lost() bool { return e.Ready != "True" || e.Tainted }

// volumeSay is a volume that is attached to the node.
type volumeSay struct {
	Attachment string     `json:"attachment"`
	Volume     string     `json:"volume"`
	Claim      string     `json:"claim,omitempty"` // NAMESPACE/NAME
	Pods       []string   `json:"pods,omitempty"`  // the pods that use the claim, on any node, with NAMESPACE/
	Attacher   string     `json:"attacher"`
	Asked      *time.Time `json:"asked,omitempty"` // when the detach was requested; nil: it was not
	Error      string     `json:"error,omitempty"` // of the latest attempt
}

func (v *volumeSay) text(zone *time.Location) string {
	what := view.Clean(v.Volume)
	if v.Claim != "" {
		what += " (claim " + view.Clean(v.Claim) + ")"
	}
	if len(v.Pods) > 0 {
		what += ", which " + view.Clean(strings.Join(v.Pods, ", ")) + " wants,"
	}
	waits := "kube-controller-manager, which has not asked for the detach"
	if v.Asked != nil {
		waits = fmt.Sprintf("the attacher of %s, which was asked at %s", view.Clean(v.Attacher), v.Asked.In(zone).Format(time.TimeOnly))
	}
	if what += " is attached here, and waits for " + waits; v.Error != "" {
		what += ": " + view.Clean(v.Error)
	}
	return what
}

// volumes returns the volumes attached to a lost node: while a driver's attacher hangs, none can be attached elsewhere.
func (x *explainer) volumes(ctx context.Context, e *explanation) error {
	if !e.lost() {
		return nil
	}
	var attachments struct {
		Items []struct {
			Metadata struct {
				Name              string
				DeletionTimestamp *time.Time
			}
			Spec struct {
				NodeName, Attacher string
				Source             struct{ PersistentVolumeName string }
			}
			Status struct{ DetachError struct{ Message string } }
		}
	}
	if err := x.get(ctx, &attachments, "get", "volumeattachments", "-o", "json"); err != nil {
		return err
	}
	for _, a := range attachments.Items {
		if a.Spec.NodeName == e.Node {
			e.Volumes = append(e.Volumes, volumeSay{Attachment: a.Metadata.Name, Volume: a.Spec.Source.PersistentVolumeName, Attacher: a.Spec.Attacher,
				Asked: a.Metadata.DeletionTimestamp, Error: a.Status.DetachError.Message})
		}
	}
	if len(e.Volumes) == 0 {
		return nil
	}
	return x.claims(ctx, e)
}

// claims finds the claims of the volumes.
func (x *explainer) claims(ctx context.Context, e *explanation) error {
	var volumes struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct {
				ClaimRef struct{ Namespace, Name string }
			}
		}
	}
	if err := x.get(ctx, &volumes, "get", "persistentvolumes", "-o", "json"); err != nil {
		return err
	}
	pods := map[string][]string{} // by claim
	for _, v := range volumes.Items {
		ref := v.Spec.ClaimRef
		i := slices.IndexFunc(e.Volumes, func(o volumeSay) bool { return o.Volume == v.Metadata.Name })
		if i < 0 || ref.Name == "" {
			continue
		}
		e.Volumes[i].Claim = ref.Namespace + "/" + ref.Name
		if _, asked := pods[ref.Namespace]; !asked {
			pods[ref.Namespace] = nil
			if err := x.users(ctx, ref.Namespace, pods); err != nil {
				return err
			}
		}
		e.Volumes[i].Pods = pods[e.Volumes[i].Claim]
	}
	return nil
}

// users adds the pods of a namespace to the claims that they use.
func (x *explainer) users(ctx context.Context, namespace string, pods map[string][]string) error {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct {
				Volumes []struct {
					PersistentVolumeClaim struct{ ClaimName string }
				}
			}
		}
	}
	if err := x.get(ctx, &list, "get", "pods", "--namespace", namespace, "-o", "json"); err != nil {
		return err
	}
	for _, p := range list.Items {
		for _, v := range p.Spec.Volumes {
			if name := v.PersistentVolumeClaim.ClaimName; name != "" {
				pods[namespace+"/"+name] = append(pods[namespace+"/"+name], namespace+"/"+p.Metadata.Name)
			}
		}
	}
	return nil
}

// mostAsked is how many agents are asked about a node, at most, until one answers.
const mostAsked = 3

// outlook is what an agent reports about a lost node that is not called dead yet: how long a proof by time takes.
// Without the right to ask agents it is unknown. That is not an error, but the output mentions it.
func (x *explainer) outlook(ctx context.Context, e *explanation) error {
	if !e.lost() || len(e.Told)+len(e.Garbled) > 0 {
		return nil
	}
	pods, err := agentPods(ctx, x.kubectl, "", "")
	if err != nil {
		return nil
	}
	pods = slices.DeleteFunc(pods, func(p agentPod) bool { return p.node == e.Node })
	for i := range pods[:min(mostAsked, len(pods))] {
		text, err := x.kubectl(ctx, pods[i].inPod("status", "-o", "json")...)
		st := new(fencingv1.Status)
		if err != nil || (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, st) != nil {
			continue
		}
		for _, g := range view.Missing(st) {
			if slices.Contains(g.Nodes, e.Node) {
				e.Outlook = append(e.Outlook, g.Text()+" (as "+pods[i].node+" sees it)")
			}
		}
		if len(e.Outlook) > 0 {
			return nil
		}
	}
	return nil
}
