package recovery

import (
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/belief"
)

// TaintKey is Kubernetes' own taint for a node that is off. All that acts on it looks at the key alone; the value is
// free, and says which boot ended.
const TaintKey = "node.kubernetes.io/out-of-service"

// NoteKey is the annotation of a Node that names a boot which was called dead and was heard afterwards. It says so to
// replicas that have not seen it, also where no taint was set.
const NoteKey = "fencing-agent.io/disputed"

const fenced, disputed = "fenced-", "disputed-"

// Fenced is the taint's value while pods of this boot are being taken off.
func Fenced(boot string) string { return fenced + boot }

// Disputed is its value after something has shown that this boot may run.
func Disputed(boot string) string { return disputed + boot }

// Ours reports whether a value of the taint is of this program.
func Ours(value string) bool {
	boot, _ := BootOf(value)
	return boot != ""
}

// BootOf takes a taint's value apart. The boot is empty if it is not of this program.
func BootOf(value string) (boot string, isDisputed bool) {
	if b, ok := strings.CutPrefix(value, fenced); ok && len(b) == 16 {
		return b, false
	}
	if b, ok := strings.CutPrefix(value, disputed); ok && len(b) == 16 {
		return b, true
	}
	return "", false
}

// Word is what a Node says about the end of the boot that it shows.
type Word struct {
	Fenced   string // that boot: it is believed to have ended, and nothing has spoken against that
	Disputed string // that boot: it was called dead, and was heard after that
}

// WordOf is the one place that tells a death in force from one in dispute, for all who act on what a Node
// says: NodeFences, remediations and the storage. values are those of all its taints [TaintKey] with the effect NoExecute,
// others those of any other effect.
//
// Invariant: the annotation [NoteKey] speaks from the first moment, and the taint 15 s later, or never if that patch is
// refused. So either of them withdraws what rests on the death; and neither says anything of another boot.
func WordOf(boot, note string, values, others []string) Word {
	is := func(list []string, value string) bool { return slices.Contains(list, value) }
	switch {
	case boot == "":
		return Word{}
	case note == boot, is(values, Disputed(boot)), is(others, Disputed(boot)):
		return Word{Disputed: boot}
	case is(values, Fenced(boot)):
		return Word{Fenced: boot}
	}
	return Word{}
}

// Node is what the API server shows of the Node.
type Node struct {
	Exists       bool
	UID, Version string
	Boot         string // of its bootID, as deaths name it
	Ready        bool
	Unknown      bool // Ready is Unknown
	// Heartbeat is when the kubelet wrote Ready last, by its clock. kube-controller-manager leaves it as it is when it
	// makes Ready Unknown. Empty: it is not known.
	Heartbeat string
	Note      string // the annotation NoteKey
	Leaving   bool   // it is being deleted, or the autoscaler is about to
	Tainted   bool   // with out-of-service
	Taint     string
}

// Lease is what it shows of the Node's Lease.
type Lease struct {
	Exists   bool
	Version  string
	Renewed  time.Time
	Duration time.Duration
}

// over reports whether the Lease has run out.
func (l Lease) over(now time.Time) bool { return l.Exists && now.Sub(l.Renewed) > l.Duration }

// renewal is the longest time between two renewals of a kubelet whose requests are answered: a quarter of the duration,
// 4 % of that (wait.JitterUntil in component-helpers' lease controller), and what a request takes.
func (l Lease) renewal() time.Duration { return l.Duration/4 + l.Duration/100 + renewalDelay }

// Fresh reports whether somebody renews the Lease, by any clock that is worth anything: kubelets do so after a quarter of its
// duration. Between half and all of it nothing is concluded, since replicas' clocks differ: a clock that is so far ahead that by it the
// Lease of a node that runs has run out finds no reporter fresh.
func (l Lease) Fresh(now time.Time) bool { return l.Exists && now.Sub(l.Renewed) <= l.Duration/2 }

// Pod is one that is bound to the Node.
type Pod struct {
	Namespace, Name, UID, Version string

	Tolerates bool // the taint, or mirrors a file of the node: it is no business of the controller's
	Excluded  bool // by label, or by the setting recovery.pods: only the eviction concerns it
	Deleting  bool // it has a deletionTimestamp
	Forced    bool // and no grace left: a finalizer holds it
}

// Kind is what a machine asks for.
type Kind int

// The requests.
const (
	Wait          Kind = iota // nothing before Until
	ReadPods                  // the pods bound to the Node, all of them, not from a cache
	ReadNode                  // the Node, not from a cache
	ReadReporters             // the Nodes that name Boot, and those of Before
	ReadLease                 // the Node's Lease, not from a cache
	SetTaint                  // out-of-service = Value on the Node of this UID and Version
	RemoveTaint               // out-of-service off the Node of this UID and Version
	SetNote                   // NoteKey = Value on the Node of this UID and Version; empty: it is taken off
	DeletePod                 // Pod, without grace, of its UID and Version
)

// Request is what to do next.
type Request struct {
	Kind         Kind
	Until        time.Time // of Wait; zero: until something changes
	UID, Version string
	Value        string   // of the taint, or of the annotation
	Boot         string   // of ReadReporters
	Before       []string // of ReadReporters
	Unknown      bool     // of ReadReporters: what the Node's Ready says
	Pod          Pod
	// Deadline of a write that a look at the Lease allows: it is not to be sent later than that, and not waited for.
	// Zero: there is none.
	Deadline time.Time
}

// Outcome is how a request ended.
type Outcome int

// The outcomes.
const (
	Done     Outcome = iota
	Conflict         // a precondition did not hold
	Missing          // there is no such object
	Failed           // anything else; it may have been carried out
	Late             // the deadline passed before it was sent: it was not carried out
)

// MostReporters is how many Nodes that named a boot are remembered, to see them take it back, unless more are needed to
// believe it. In a group of 500 all others tell of a death.
const MostReporters = 6

// Reply is the answer to a request.
type Reply struct {
	Outcome Outcome
	Error   string // of Failed, for people
	Pods    []Pod
	Node    Node
	Lease   Lease
	Verdict belief.Verdict
	Group   Group
}

// Group is the Node's group, for the pace of storms; it comes with ReadReporters.
type Group struct {
	Name       string
	Size, Dead int
}
