package recovery

import (
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/belief"
)

// TaintKey is Kubernetes' own taint for a node that is off. Programs that act on it only look at the key; the value is
// free, and names the boot that ended.
const TaintKey = "node.kubernetes.io/out-of-service"

// NoteKey is the annotation of a Node that names a boot which was called dead and was heard afterwards. It informs
// replicas that have not seen this, even if no taint was set.
const NoteKey = "fencing-agent.io/disputed"

const fenced, disputed = "fenced-", "disputed-"

// Fenced returns the taint's value while the pods of this boot are being removed.
func Fenced(boot string) string { return fenced + boot }

// Disputed returns the taint's value after a sign that this boot may run.
func Disputed(boot string) string { return disputed + boot }

// Ours reports whether a value of the taint was set by this program.
func Ours(value string) bool {
	boot, _ := BootOf(value)
	return boot != ""
}

// BootOf reads a taint's value. The boot is empty if the value was not set by this program.
func BootOf(value string) (boot string, isDisputed bool) {
	if b, ok := strings.CutPrefix(value, fenced); ok && len(b) == 16 {
		return b, false
	}
	if b, ok := strings.CutPrefix(value, disputed); ok && len(b) == 16 {
		return b, true
	}
	return "", false
}

// Word is what a Node shows about the end of its present boot.
type Word struct {
	Fenced   string // that boot: it is believed to have ended, and nothing has disputed that
	Disputed string // that boot: it was called dead, and was heard after that
}

// WordOf is the only place that distinguishes a death in force from one in dispute, for all programs that act on a
// Node: NodeFences, remediations and the storage. values are those of all its taints [TaintKey] with the effect
// NoExecute; others are those with any other effect.
//
// Invariant: the annotation [NoteKey] shows a dispute from the first moment. The taint shows it 15 s later, or never if
// that patch is refused. So either of them withdraws what depends on the death, and neither means anything for another
// boot.
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

// Node is what the API server shows about the Node.
type Node struct {
	Exists       bool
	UID, Version string
	Boot         string // the boot of its bootID, as deaths name it
	Ready        bool
	Unknown      bool // Ready is Unknown
	// Heartbeat is the time at which the kubelet last wrote Ready, by the kubelet's clock. kube-controller-manager does
	// not change it when it sets Ready to Unknown. Empty: it is not known.
	Heartbeat string
	Note      string // the annotation NoteKey
	Leaving   bool   // it is being deleted, or the autoscaler is about to delete it
	Tainted   bool   // it has the taint out-of-service
	Taint     string
}

// Lease is what the API server shows about the Node's Lease.
type Lease struct {
	Exists   bool
	Version  string
	Renewed  time.Time
	Duration time.Duration
}

// over reports whether the Lease has run out.
func (l Lease) over(now time.Time) bool { return l.Exists && now.Sub(l.Renewed) > l.Duration }

// renewal is the longest time between two renewals of a kubelet whose requests are answered. It is a quarter of the
// duration, plus 4 % of that (wait.JitterUntil in component-helpers' lease controller), plus the time of a request.
func (l Lease) renewal() time.Duration { return l.Duration/4 + l.Duration/100 + renewalDelay }

// Fresh reports whether the Lease is being renewed: kubelets renew it after a quarter of its duration. Between a half
// and all of the duration nothing is concluded, since replicas' clocks differ. A clock may be so far ahead that the
// Lease of a running node seems to have run out; by that clock no reporter is fresh.
func (l Lease) Fresh(now time.Time) bool { return l.Exists && now.Sub(l.Renewed) <= l.Duration/2 }

// Pod is a pod that is bound to the Node.
type Pod struct {
	Namespace, Name, UID, Version string

	Tolerates bool // it tolerates the taint, or mirrors a file of the node: the controller leaves it alone
	Excluded  bool // by label, or by the setting recovery.pods: the controller only waits for its eviction
	Deleting  bool // it has a deletionTimestamp
	Forced    bool // its time to end is over: a finalizer holds it
}

// Kind is the kind of a machine's request.
type Kind int

const (
	Wait          Kind = iota // nothing to do before Until
	ReadPods                  // the pods bound to the Node, all of them, not from a cache
	ReadNode                  // the Node, not from a cache
	ReadReporters             // the Nodes that name Boot, and those of Before
	ReadLease                 // the Node's Lease, not from a cache
	SetTaint                  // out-of-service = Value on the Node of this UID and Version
	RemoveTaint               // out-of-service off the Node of this UID and Version
	SetNote                   // NoteKey = Value on the Node of this UID and Version; empty: remove it
	DeletePod                 // Pod, without grace, of its UID and Version
)

// Request is what the machine needs next.
type Request struct {
	Kind         Kind
	Until        time.Time // of Wait; zero: until something changes
	UID, Version string
	Value        string   // of the taint, or of the annotation
	Boot         string   // of ReadReporters
	Before       []string // of ReadReporters
	Unknown      bool     // of ReadReporters: whether the Node's Ready is Unknown
	Pod          Pod
	// Deadline limits a write that a read of the Lease allows: after it the write is not sent, and its answer is not
	// awaited. Zero: there is none.
	Deadline time.Time
}

// Outcome is how a request ended.
type Outcome int

const (
	Done     Outcome = iota
	Conflict         // a precondition did not hold
	Missing          // there is no such object
	Failed           // anything else; it may have been carried out
	Late             // the deadline passed before it was sent: it was not carried out
)

// MostReporters is the number of Nodes that named a boot and are remembered, to see whether they take it back. It is
// more if more are needed to believe the death. In a group of 500 all other Nodes name a death.
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

// Group is the Node's group, for the limits of storms; it comes with ReadReporters.
type Group struct {
	Name       string
	Size, Dead int
}
