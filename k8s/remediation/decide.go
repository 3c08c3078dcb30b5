package remediation

import (
	"fmt"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// Types of conditions that medik8s' contract names, and their values.
const (
	Processing = "Processing"
	Succeeded  = "Succeeded"

	True    = "True"
	False   = "False"
	Unknown = "Unknown"
)

// Condition is a condition of an object's status.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"lastTransitionTime"`
}

// Spec is what was asked for.
type Spec struct {
	Step string `json:"step,omitempty"` // the first step of a NodeFence; empty: isolation
}

// Status is the whole state of a remediation.
type Status struct {
	Node       string      `json:"nodeName,omitempty"`
	NodeUID    string      `json:"nodeUID,omitempty"`
	Boot       string      `json:"boot,omitempty"` // the boot that the Node showed when this began
	Conditions []Condition `json:"conditions,omitempty"`
}

// Fence is the node's NodeFence.
type Fence struct {
	UID          string
	Mine         bool // this remediation has created it
	Deleting     bool
	Boot         string
	GivenUp      bool
	Proven       bool // that its boot has ended is proven
	Contradicted bool // the kubelet was heard after that
	Lies         bool // devices, or a message, have called that boot dead, and something contradicts that: a person has to look
	Message      string
}

// Facts are the whole input of a decision.
type Facts struct {
	Now       time.Time
	Name      string // of the node
	Deleting  bool
	TimedOut  bool // its creator has given it up
	Finalizer bool
	Spec      Spec
	Status    Status
	Node      nodefence.Node
	Fence     *Fence // nil: there is none
	Others    bool   // another remediation asks for the same
	Hindrance string // why no NodeFence begins: no configuration, problems in it, a storm
}

// Kind is what an [Action] does.
type Kind int

const (
	Wait            Kind = iota
	Update               // Status, and the finalizer, if the object is still the one that was read
	DeleteFence          // the NodeFence of UID
	RemoveFinalizer      // of the remediation
)

// Action is the next write.
type Action struct {
	Kind   Kind
	Status Status
	UID    string
	Why    string
}

// Wishes reports whether this remediation asks for a NodeFence now.
func Wishes(f Facts) bool {
	s := f.Status
	return !f.Deleting && !f.TimedOut && f.Finalizer && f.same() && s.Boot != "" && f.Node.Boot == s.Boot && !f.Node.Ready
}

// same reports whether the Node is still the object that this remediation is about.
func (f Facts) same() bool { return f.Node.Exists && f.Node.UID == f.Status.NodeUID }

// Decide returns the next write.
func Decide(f Facts) Action {
	// A NodeFence that has given up, or whose devices lie, is left to a person: it shows what failed, and another one
	// would fail as well. If only the agents were wrong there is nothing to look at, so the NodeFence is removed as
	// usual.
	mine := f.Fence != nil && f.Fence.Mine && !f.Fence.GivenUp && !f.Fence.Lies
	switch {
	case f.Deleting && !f.Finalizer:
		return Action{Kind: Wait}
	case f.Deleting && !mine:
		return Action{Kind: RemoveFinalizer, Why: "its NodeFence is gone, or left to a person"}
	// If the node is back, its NodeFence ends by itself. That is better, since the node may need another boot first.
	case (f.Deleting || f.TimedOut) && mine && !f.Fence.Deleting && !f.Node.Ready && !f.Others:
		return Action{Kind: DeleteFence, UID: f.Fence.UID, Why: "the remediation was taken back"}
	}
	stored := f.Status
	s := stored
	s.Conditions = slices.Clone(s.Conditions)
	if f.begins() {
		s.Node, s.NodeUID, s.Boot = f.Name, f.Node.UID, f.Node.Boot
		s.Conditions = nil
	}
	f.Status = s
	for _, c := range f.conditions() {
		s.set(c, f.Now)
	}
	if f.Finalizer && s.equal(stored) {
		return Action{Kind: Wait}
	}
	last := s.Conditions[len(s.Conditions)-1]
	return Action{Kind: Update, Status: s, Why: last.Reason + ": " + last.Message}
}

// begins reports whether the remediation is about the boot that the Node shows now: at the start, and when another boot
// has failed after that and nothing of the first is left.
func (f Facts) begins() bool {
	switch {
	case f.Deleting || f.TimedOut || !f.Node.Exists || f.Node.Boot == "":
		return false
	case f.Status.Boot == "":
		return true
	default:
		return f.Fence == nil && !f.Node.Ready && (f.Node.Boot != f.Status.Boot || f.Node.UID != f.Status.NodeUID)
	}
}

// conditions are what its creator relies on: Processing, or Succeeded with True or False.
func (f Facts) conditions() []Condition {
	s := f.Status
	is := func(processing, succeeded, reason, format string, args ...any) []Condition {
		text := fmt.Sprintf(format, args...)
		return []Condition{{Type: Processing, Status: processing, Reason: reason, Message: text}, {Type: Succeeded, Status: succeeded, Reason: reason, Message: text}}
	}
	about := f.Fence != nil && f.Fence.Boot == s.Boot && s.Boot != ""
	switch {
	case about && (f.Fence.Contradicted || f.Fence.Lies):
		return is(False, False, "Contradicted", "%s", f.Fence.Message)
	case s.Boot != "" && f.same() && f.Node.Disputed == s.Boot:
		return is(False, False, "Contradicted", "the boot was believed to have ended, and that is in dispute")
	case about && f.Fence.Proven:
		return is(False, True, "BootEnded", "the boot that the Node showed has ended, as the node's NodeFence proves")
	case s.Boot != "" && f.same() && f.Node.Fenced == s.Boot:
		return is(False, True, "BootEnded", "the boot that the Node showed has ended, as the recovery believes")
	case s.Boot != "" && f.same() && f.Node.Ready && f.Node.Boot != "" && f.Node.Boot != s.Boot:
		return is(False, True, "BootEnded", "the Node is Ready in another boot")
	case f.was(Succeeded, True) && !about:
		return nil // a boot ends for good
	case about && f.Fence.GivenUp:
		return is(False, False, "GivenUp", "%s", f.Fence.Message)
	case f.TimedOut:
		return is(False, False, "TimedOut", "the creator of this remediation has given it up before anything was proven")
	case f.Deleting:
		return is(False, False, "TakenBack", "the remediation is being deleted before anything was proven")
	case !f.Node.Exists:
		return is(False, False, "NodeNotFound", "there is no Node %s", f.Name)
	case s.NodeUID != "" && !f.same():
		return is(False, False, "NodeNotFound", "the Node of this remediation is gone, and another one has its name")
	case s.Boot == "":
		return is(True, Unknown, "Waiting", "the Node shows no bootID")
	case about:
		return is(True, Unknown, "Fencing", "%s", f.Fence.Message)
	case f.Fence != nil:
		return is(True, Unknown, "Waiting", "the node's NodeFence is about another boot")
	case f.Node.Ready:
		return is(True, Unknown, "Waiting", "the Node is Ready: it is fenced when it is not")
	case f.Hindrance != "":
		return is(True, Unknown, "Waiting", "no NodeFence begins: %s. The agents' proof counts as well", f.Hindrance)
	default:
		return is(True, Unknown, "Waiting", "a NodeFence is about to begin")
	}
}

func (f Facts) was(kind, status string) bool {
	return slices.ContainsFunc(f.Status.Conditions, func(c Condition) bool { return c.Type == kind && c.Status == status })
}

// set changes a condition. If it was different before, it also sets the time.
func (s *Status) set(c Condition, now time.Time) {
	i := slices.IndexFunc(s.Conditions, func(o Condition) bool { return o.Type == c.Type })
	if i < 0 {
		c.Since = now
		s.Conditions = append(s.Conditions, c)
		return
	}
	c.Since = s.Conditions[i].Since
	if s.Conditions[i].Status != c.Status {
		c.Since = now
	}
	s.Conditions[i] = c
}

func (s Status) equal(o Status) bool {
	return s.Node == o.Node && s.NodeUID == o.NodeUID && s.Boot == o.Boot &&
		slices.EqualFunc(s.Conditions, o.Conditions, func(a, b Condition) bool {
			return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
		})
}
