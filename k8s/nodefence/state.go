package nodefence

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/kdump"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// Step is a step of fencing a node.
type Step string

// The steps, in their order.
const (
	Isolation Step = "isolation"
	Power     Step = "power_management"
	Recovery  Step = "recovery"
)

// Phase is the progress of a step.
type Phase string

const (
	New     Phase = "new"
	Running Phase = "running"
	Done    Phase = "done"
	Error   Phase = "error"
	GivenUp Phase = "givenUp" // a person has to look
)

// These are the kinds of proof that the boot has ended.
const (
	ByAgents = "agent" // the agents' proof, as the recovery's taint shows
	ByPower  = "power" // each supply of the node was off, as its devices reported
	ByKdump  = "kdump" // its crash kernel has reported it (k8s/kdump)
)

// These are the states of an [Entry].
const (
	Recorded  = "running" // its Job may run
	Succeeded = "succeeded"
	Failed    = "failed"
)

// Role is the purpose of a Job.
type Role string

const (
	Plan    Role = "plan"    // checks whether each method of the node is possible, before anything is cut off
	Check   Role = "check"   // asks whether the plug is off, and switches nothing
	Again   Role = "again"   // asks all supplies once more, when all have reported off
	Main    Role = "main"    // a method of the step
	Unfence Role = "unfence" // gives storage back between the last off and the first on
	Restore Role = "restore" // switches on what an unfinished step has switched off
)

// Entry is one Job that was allowed to run.
type Entry struct {
	Name       string    `json:"name"` // of the Job
	UID        string    `json:"uid"`
	Method     string    `json:"method"`
	Action     string    `json:"action"`
	Role       Role      `json:"role"`
	Step       Step      `json:"step"`
	Try        int       `json:"try"`
	State      string    `json:"state"`
	Node       string    `json:"executorNode,omitempty"`
	Message    string    `json:"message,omitempty"`
	StartedAt  time.Time `json:"startedAt"`
	NotAfter   time.Time `json:"notAfter"` // after this it does nothing any more
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	Unclear    bool      `json:"unclear,omitempty"` // it failed without a message of its own: it may run until NotAfter
	Confirm    bool      `json:"confirm,omitempty"` // it succeeds only if its executor reports that the plug is off
	Barrier    bool      `json:"barrier,omitempty"` // and only if its executor reports that each logical unit was reset after that
}

// Proof records that the boot has ended.
type Proof struct {
	Kind      string    `json:"kind"`
	Boot      string    `json:"boot"`
	At        time.Time `json:"at"`
	Heartbeat string    `json:"heartbeat,omitempty"` // the kubelet's last heartbeat at that time
	// Contradicted is true if the kubelet of this boot was heard after that, so the proof does not count any more.
	Contradicted bool `json:"contradicted,omitempty"`
}

// Dump records that a crash kernel was heard.
type Dump struct {
	Since time.Time `json:"since"`
	Last  time.Time `json:"last"`
}

// Spec is what was asked for.
type Spec struct {
	NodeName string `json:"nodeName"`
	NodeUID  string `json:"nodeUID,omitempty"`
	Boot     string `json:"boot,omitempty"` // the boot to be fenced; empty: the one that the Node shows
	Step     Step   `json:"step,omitempty"` // the first step; empty: isolation
	Paused   bool   `json:"paused,omitempty"`
}

// Status is the whole state of a fencing.
type Status struct {
	Boot      string    `json:"boot,omitempty"`
	NodeUID   string    `json:"nodeUID,omitempty"`
	Step      Step      `json:"step,omitempty"`
	Phase     Phase     `json:"phase,omitempty"`
	StartedAt time.Time `json:"stepStartedAt,omitzero"`
	DoneAt    time.Time `json:"phaseEndedAt,omitzero"` // when the phase became done or error
	ReadyAt   time.Time `json:"readyAt,omitzero"`      // when the Node became Ready, in recovery
	Retries   int       `json:"retries"`
	Jobs      []Entry   `json:"jobs,omitempty"`
	Failed    []string  `json:"failedExecutors,omitempty"` // nodes on which a Job failed
	Proof     *Proof    `json:"proof,omitempty"`
	Dump      *Dump     `json:"dump,omitempty"`
	Storages  []Severed `json:"storages,omitempty"`
	NotReady  bool      `json:"sawNotReady,omitempty"` // the Node was not Ready since this began
	Isolated  bool      `json:"isolated,omitempty"`    // a method of isolation may have worked
	Switched  bool      `json:"switched,omitempty"`    // a supply may be off that has not been switched on since
	Message   string    `json:"message,omitempty"`
	// Ordered is the step for which a person has created this NodeFence: no limit for storms holds that step up.
	Ordered    Step        `json:"ordered,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// PolicyAllows is the type of the condition that shows whether limits for storms hold this NodeFence up.
const PolicyAllows = "PolicyAllows"

// Condition has the form of the conditions of Kubernetes.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message,omitempty"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// Held returns the limit that holds this NodeFence up, or empty.
func (s *Status) Held() string {
	for _, c := range s.Conditions {
		if c.Type == PolicyAllows && c.Status == "False" {
			return c.Reason
		}
	}
	return ""
}

// Clone returns a copy that shares no memory with s.
func (s Status) Clone() Status {
	s.Jobs, s.Failed = slices.Clone(s.Jobs), slices.Clone(s.Failed)
	s.Storages, s.Conditions = slices.Clone(s.Storages), slices.Clone(s.Conditions)
	if s.Proof != nil {
		p := *s.Proof
		s.Proof = &p
	}
	if s.Dump != nil {
		m := *s.Dump
		s.Dump = &m
	}
	return s
}

// entry finds a Job by name.
func (s *Status) entry(name string) *Entry {
	i := slices.IndexFunc(s.Jobs, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Jobs[i]
}

// Object is a NodeFence as the API server shows it.
type Object struct {
	UID, Version string
	Deleting     bool
	Spec         Spec
	Status       Status
}

// Node is what the API server shows about the Node.
type Node struct {
	Exists        bool
	UID, Boot     string
	Ready         bool
	NotReadySince time.Time
	Heartbeat     string
	Silent        bool   // its Lease was not renewed for its whole duration, by the reader's own clock
	Kept          bool   // a person wants it left alone, or it is being removed
	Fenced        string // the boot that it shows, if the recovery believes that this boot has ended
	Disputed      string // the boot that it shows, if it was called dead, and was heard after that
	// Seen lists the nodes whose agents report at present that they see the boot that it shows; empty if they are too
	// few.
	Seen []string
}

// Job is what the API server shows about a Job of this NodeFence.
type Job struct {
	Name, UID, Version  string
	Suspended           bool
	NotAfter            time.Time
	Finished, Succeeded bool
	Reported            bool // its executor has reported how it ended
	Unknown             bool // its executor has reported that it does not know the command, as an older version does
	Off                 bool // its executor has reported that the plug is off
	Barrier             bool // and that each logical unit was reset after that
	Node, Message       string
}

// Facts are the whole input of a decision.
type Facts struct {
	Now     time.Time
	Object  *Object // nil: there is none
	Node    Node
	Config  *fenceconfig.Node // nil: the node is not managed
	Cluster fenceconfig.Cluster
	Jobs    []Job         // of this NodeFence
	Crash   kdump.Verdict // what this replica has heard of the node's crash kernel
	Policy  storm.Verdict // whether the next step that isolates the node or cuts its power may begin
	Wish    string        // the UID of a remediation that asks for a NodeFence now
	First   Step          // the first step that the remediation asks for; empty: isolation
	// Returning is the time for which this replica has seen that the storages are about to be given back
	// ([Status.Returns]).
	Returning time.Duration
}

// Kind is what an [Action] does.
type Kind int

const (
	Wait            Kind = iota // look again at Until, or when something changes
	Create                      // the NodeFence, with Spec and Status
	Update                      // its Status, if it still has Version
	CreateJob                   // Name, suspended, for Method and Role
	StartJob                    // the Job Name with this UID
	DeleteJob                   // the Job Name with this UID, if it still has Version
	Delete                      // the NodeFence with this UID
	RemoveFinalizer             // of the NodeFence, if it still has Version
)

// Action is the next write.
type Action struct {
	Kind               Kind
	Until              time.Time
	UID, Version, Name string
	Spec               Spec
	Status             Status
	Method             fenceconfig.Method
	Methods            []fenceconfig.Method // for the role plan: all of the node
	Role               Role
	Timeout            time.Duration
	NotAfter           time.Time
	Wish               string   // the remediation to which this NodeFence belongs
	Held               string   // the limit for storms that holds the NodeFence up
	Avoid              []string // nodes on which a Job has failed: others are preferred
	Why                string   // for the log, and for people when something begins or ends
}
