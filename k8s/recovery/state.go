package recovery

// Phase is the progress of a Node's recovery.
type Phase string

// The phases. The first six are those of a node that dies and returns.
const (
	Watching  Phase = "watching"  // no reporter names its boot
	Unproven  Phase = "unproven"  // reporters name it, but too few
	Proven    Phase = "proven"    // believed dead; the barrier is not set yet
	Draining  Phase = "draining"  // the barrier is set
	Released  Phase = "released"  // the barrier is set, and the pods are gone
	Returning Phase = "returning" // another boot is there, the taint is not removed yet

	Held      Phase = "held"      // something is missing; the text names it
	InDispute Phase = "disputed"  // the boot may run: nothing is done until a person decides, or another boot shows
	Foreign   Phase = "foreign"   // somebody else has set the taint
	WouldAct  Phase = "would_act" // dryRun
	Gone      Phase = "gone"      // there is no such Node
)

// Phases lists all of them, for metrics.
func Phases() []Phase {
	return []Phase{Watching, Unproven, Proven, Draining, Released, Returning, Held, InDispute, Foreign, WouldAct, Gone}
}

// SlowAnswers is the reason for which a write that needs a recent read of the Lease waits: the API server takes too
// long to answer.
const SlowAnswers = "SlowAnswers"

// Writes counts the writes.
type Writes struct{ Tainted, Removed, Deleted, Conflicts int }

// State is what people are shown about a Node.
type State struct {
	Phase     Phase
	Text      string
	Held      string // the reason in one word: a policy of k8s/storm, or SlowAnswers
	Trouble   string // the error of the last request that failed
	Tainted   bool   // out-of-service, by this program
	Left      int    // pods that are still to be deleted
	Finalized int    // pods that finalizers hold
	Last      Pod    // the pod that was deleted last
	Writes    Writes
}

func (s *State) set(p Phase, text string) {
	if p != Proven {
		s.Held = ""
	}
	if p != Draining && p != Returning {
		s.Left, s.Finalized = 0, 0
	}
	s.Phase, s.Text = p, text
}
