package recovery

// Phase is how far the recovery of a Node is.
type Phase string

// The phases. The first six are the way of a node that dies and comes back.
const (
	Watching  Phase = "watching"  // nobody names its boot
	Unproven  Phase = "unproven"  // somebody does, and it is not enough
	Proven    Phase = "proven"    // believed dead; the barrier is not set yet
	Draining  Phase = "draining"  // the barrier is set
	Released  Phase = "released"  // and the pods are gone
	Returning Phase = "returning" // another boot is there, the taint is not off yet

	Held      Phase = "held"      // something is missing; the text says what
	InDispute Phase = "disputed"  // the boot may run: nothing is done until a person, or another boot, comes
	Foreign   Phase = "foreign"   // the taint is somebody else's
	WouldAct  Phase = "would_act" // dryRun
	Gone      Phase = "gone"      // there is no such Node
)

// Phases lists them all, for metrics.
func Phases() []Phase {
	return []Phase{Watching, Unproven, Proven, Draining, Released, Returning, Held, InDispute, Foreign, WouldAct, Gone}
}

// SlowAnswers is what holds a write that needs a young look at the Lease, while the API server takes too long to answer.
const SlowAnswers = "SlowAnswers"

// Writes counts what was written.
type Writes struct{ Tainted, Removed, Deleted, Conflicts int }

// State is what to tell people about a Node.
type State struct {
	Phase     Phase
	Text      string
	Held      string // by what, in one word: a policy of k8s/storm, or SlowAnswers
	Trouble   string // of the last request that failed
	Tainted   bool   // out-of-service, by this program
	Left      int    // pods to be deleted
	Finalized int    // pods that finalizers hold
	Last      Pod    // deleted last
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
