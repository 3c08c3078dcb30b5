package storagefence

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Rules are the operator's settings for pods.
type Rules struct {
	Driver string   // CSI driver of the storage
	Labels []string // of pods; one of these labels with a true value opts in
}

// Volume is a volume of a pod.
type Volume struct {
	Name   string // in the pod
	Claim  string // empty: none
	PV     string // empty: none, or not bound
	Driver string // CSI driver of the claim; empty: another kind of volume
	// Local volumes stay on the node, and are created again with the pod elsewhere: configuration, secrets, emptyDir.
	Local  bool
	Health Health // if the volume is of this storage
	Reason string // why it is not healthy, or could not be read
	// Conditions are the problems of the volume that a CSI driver reports through Kubernetes.
	Conditions []Condition
}

// Condition is an adverse condition of a volume, as the volume's claim shows it.
type Condition struct{ Status, Reason string }

// degraded is the only status of a volume whose pod may still be deleted. A volume that has just lost the copy on this
// node has this status.
const degraded = "Degraded"

// adverse returns why a volume's conditions keep its pod where it is; empty: they do not.
//
// Invariant: a condition can only keep a pod, never let it go. It is not known when a claim's conditions were last
// checked, so a volume without conditions may have lost its only copy a moment ago. A status that this program does not
// know keeps the pod as well.
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
	// Pinned pods would return to the same node: mirrors of a file, and pods of DaemonSets.
	Pinned  bool
	Ended   bool // its containers have ended for good
	Volumes []Volume
}

// Outcome is what happens to a pod. Its strings are the values of a metric's label.
type Outcome string

// The outcomes. The adapter reports Deleted and Failed after it has tried.
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

// Verdict is what should happen to a pod, and why.
type Verdict struct {
	Outcome Outcome // Deleted: delete it
	Text    string  // for people; empty if the pod has not opted in
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
			problem = fmt.Sprintf("the label %s is %q, but must be true or false", key, value)
		case on:
			return true, ""
		}
	}
	return false, problem
}

// Judge decides what should happen to a pod. off means that the node is known to be off, so that Kubernetes releases
// everything that was attached there.
//
// Invariant: unless off, a pod with a volume of another provider stays. Its replacement would attach that volume while
// the node may still write to it.
func Judge(r Rules, p Pod, off bool) Verdict {
	on, problem := r.OptsIn(p.Labels)
	if !on || p.Ended {
		return Verdict{Outcome: SkipLabel, Text: problem}
	}
	if p.Pinned {
		return Verdict{Outcome: SkipPinned, Text: "it would come back to this node, since it belongs to a DaemonSet or mirrors a file"}
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

// Releasable returns the volumes that no staying pod uses. A volume that another pod uses stays attached.
func Releasable(pvs []string, staying []Pod) []string {
	return slices.DeleteFunc(slices.Clone(pvs), func(pv string) bool {
		return slices.ContainsFunc(staying, func(p Pod) bool {
			return !p.Ended && slices.ContainsFunc(p.Volumes, func(v Volume) bool { return v.PV == pv })
		})
	})
}
