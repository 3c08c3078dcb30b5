package storagefence

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Rules are what the operator decides about pods.
type Rules struct {
	Driver string   // CSI driver of the storage
	Labels []string // of pods; one of them with a true value opts in
}

// Volume is a volume of a pod.
type Volume struct {
	Name   string // in the pod
	Claim  string // empty: none
	PV     string // empty: none, or not bound
	Driver string // CSI driver of the claim; empty: another kind of volume
	// Local volumes stay on the node and come to life with the pod elsewhere: configuration, secrets, emptyDir.
	Local  bool
	Health Health // of a volume of this storage
	Reason string // why it is not healthy, or could not be read
	// Conditions are what a CSI driver says is wrong with it, for all of Kubernetes to read.
	Conditions []Condition
}

// Condition is an adverse condition of a volume, as the volume's claim shows it.
type Condition struct{ Status, Reason string }

// degraded is the only status that a volume may have whose pod is let go. A volume that has just lost the copy on this
// node has this status.
const degraded = "Degraded"

// adverse is why its conditions keep a volume's pod where it is; empty: they do not.
//
// Invariant: a condition keeps a pod, and none lets one go. Nobody tells when a claim's conditions were looked at last, so
// that a volume without any may be one whose only copy was lost a moment ago. A status that this program does not know
// keeps it as well.
func (v *Volume) adverse() string {
	for _, c := range v.Conditions {
		if c.Status != degraded {
			return fmt.Sprintf("its claim shows the condition %s, with the reason %s", c.Status, c.Reason)
		}
	}
	return ""
}

// Pod is a pod on the node.
type Pod struct {
	Namespace, Name string
	Labels          map[string]string
	// Pinned pods would come back to the same node: mirrors of a file, DaemonSets'.
	Pinned  bool
	Ended   bool // its containers have ended for good
	Volumes []Volume
}

// Outcome is what becomes of a pod. Its strings are the vocabulary of metrics.
type Outcome string

// The outcomes. Deleted and Failed are the adapter's word after it has tried.
const (
	Deleted       Outcome = "deleted"
	Failed        Outcome = "failed"
	SkipLabel     Outcome = "skipped_label"
	SkipNoPVC     Outcome = "skipped_no_pvc"
	SkipUnhealthy Outcome = "skipped_unhealthy"
	SkipOther     Outcome = "skipped_other_volume"
	SkipPinned    Outcome = "skipped_pinned"
)

// Outcomes lists them, for metrics that must exist from the start.
func Outcomes() []Outcome {
	return []Outcome{Deleted, Failed, SkipLabel, SkipNoPVC, SkipUnhealthy, SkipOther, SkipPinned}
}

// Verdict is what is to become of a pod, and why.
type Verdict struct {
	Outcome Outcome // Deleted: delete it
	Text    string  // for people; empty where nobody has asked
	PVs     []string
}

// OptsIn reports whether a label asks for storage fencing. A label whose value is neither true nor false is a problem.
func (r Rules) OptsIn(labels map[string]string) (yes bool, problem string) {
	for _, key := range r.Labels {
		value, there := labels[key]
		if !there {
			continue
		}
		switch on, err := strconv.ParseBool(value); {
		case err != nil:
			problem = fmt.Sprintf("the label %s is %q: true or false is allowed", key, value)
		case on:
			return true, ""
		}
	}
	return false, problem
}

// Judge says what is to become of a pod. off: the node is known to be off, so Kubernetes releases all that was attached
// there.
//
// Invariant: unless off, a pod with a volume that somebody else provides stays. Its replacement would attach that
// volume while the node may still write to it.
func Judge(r Rules, p Pod, off bool) Verdict {
	on, problem := r.OptsIn(p.Labels)
	if !on || p.Ended {
		return Verdict{Outcome: SkipLabel, Text: problem}
	}
	if p.Pinned {
		return Verdict{Outcome: SkipPinned, Text: "it would come back to this node: it is of a DaemonSet, or mirrors a file"}
	}
	var pvs, others, ill []string
	for _, v := range p.Volumes {
		switch {
		case v.Local:
		case v.Driver != r.Driver:
			others = append(others, v.Name)
		case v.Health != Healthy || v.PV == "":
			ill = append(ill, strings.TrimSuffix(v.Name+": "+v.Reason, ": "))
		case v.adverse() != "":
			ill = append(ill, v.Name+": "+v.adverse())
		default:
			pvs = append(pvs, v.PV)
		}
	}
	switch {
	case len(pvs)+len(ill) == 0:
		return Verdict{Outcome: SkipNoPVC, Text: "it has no volume of " + r.Driver}
	case len(ill) > 0:
		return Verdict{Outcome: SkipUnhealthy, Text: "not all of its volumes are healthy (" + strings.Join(ill, "; ") + "): its only copy may be on this node"}
	case len(others) > 0 && !off:
		return Verdict{Outcome: SkipOther, Text: fmt.Sprintf("it has volumes that %s does not provide (%s), and nothing shows that this node no longer writes to them", r.Driver, strings.Join(others, ", "))}
	}
	slices.Sort(pvs)
	return Verdict{Outcome: Deleted, PVs: slices.Compact(pvs)}
}

// Releasable are those of the volumes that no pod uses which stays on the node. What a neighbour uses stays attached.
func Releasable(pvs []string, staying []Pod) []string {
	return slices.DeleteFunc(slices.Clone(pvs), func(pv string) bool {
		return slices.ContainsFunc(staying, func(p Pod) bool {
			return !p.Ended && slices.ContainsFunc(p.Volumes, func(v Volume) bool { return v.PV == pv })
		})
	})
}
