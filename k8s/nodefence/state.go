package nodefence

import (
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/kdump"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// Step says what is being done to a node.
type Step string

// The steps, in their order.
const (
	Isolation Step = "isolation"
	Power     Step = "power_management"
	Recovery  Step = "recovery"
)

// Phase is how far a step is.
type Phase string

// The phases.
const (
	New     Phase = "new"
	Running Phase = "running"
	Done    Phase = "done"
	Error   Phase = "error"
	GivenUp Phase = "givenUp" // a person has to look
)

// Kinds of proof that the boot has ended.
const (
	ByAgents = "agent" // the agents' proof, as the taint of the recovery shows it
	ByPower  = "power" // each supply of the node was off, as its devices said
	ByKdump  = "kdump" // its crash kernel has said so (k8s/kdump)
)

// States of an [Entry].
const (
	Recorded  = "running" // its Job may run
	Succeeded = "succeeded"
	Failed    = "failed"
)

// Role is what a Job is for.
type Role string

// The roles.
const (
	Plan    Role = "plan"    // looks whether each method of the node is possible at all, before anything is cut off
	Check   Role = "check"   // asks whether the plug is off, and switches nothing
	Again   Role = "again"   // asks all supplies once more, when all have said off
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
	NotAfter   time.Time `json:"notAfter"` // it does nothing any more after this
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	Unclear    bool      `json:"unclear,omitempty"` // it failed without a word of its own: it may run until NotAfter
	Confirm    bool      `json:"confirm,omitempty"` // it succeeds only with its executor's word that the plug is off
	Barrier    bool      `json:"barrier,omitempty"` // and only with its word that each logical unit was reset after that
}

// Proof is that the boot has ended.
type Proof struct {
	Kind      string    `json:"kind"`
	Boot      string    `json:"boot"`
	At        time.Time `json:"at"`
	Heartbeat string    `json:"heartbeat,omitempty"` // the kubelet's last one by then
	// Contradicted: the kubelet of this boot was heard after that. Nothing rests on it any more.
	Contradicted bool `json:"contradicted,omitempty"`
}

// Dump is that a crash kernel was heard.
type Dump struct {
	Since time.Time `json:"since"`
	Last  time.Time `json:"last"`
}

// Spec is what was asked for.
type Spec struct {
	NodeName string `json:"nodeName"`
	NodeUID  string `json:"nodeUID,omitempty"`
	Boot     string `json:"boot,omitempty"` // to be fenced; empty: the one that the Node shows
	Step     Step   `json:"step,omitempty"` // to begin with; empty: isolation
	Paused   bool   `json:"paused,omitempty"`
}

// Status is all that has to be remembered.
type Status struct {
	Boot      string    `json:"boot,omitempty"`
	NodeUID   string    `json:"nodeUID,omitempty"`
	Step      Step      `json:"step,omitempty"`
	Phase     Phase     `json:"phase,omitempty"`
	StartedAt time.Time `json:"stepStartedAt,omitzero"`
	DoneAt    time.Time `json:"phaseEndedAt,omitzero"` // when the phase became done or error
	ReadyAt   time.Time `json:"readyAt,omitzero"`      // since when the Node is Ready, in recovery
	Retries   int       `json:"retries"`
	Jobs      []Entry   `json:"jobs,omitempty"`
	Failed    []string  `json:"failedExecutors,omitempty"` // nodes on which a Job failed
	Proof     *Proof    `json:"proof,omitempty"`
	Dump      *Dump     `json:"dump,omitempty"`
	Storages  []Severed `json:"storages,omitempty"`
	NotReady  bool      `json:"sawNotReady,omitempty"` // the Node was not Ready since this began
	Isolated  bool      `json:"isolated,omitempty"`    // a method that isolates it may have worked
	Switched  bool      `json:"switched,omitempty"`    // a supply may be off that has not been switched on again
	Message   string    `json:"message,omitempty"`
	// Ordered is the step that a person has made this NodeFence for: no limit for storms holds that up.
	Ordered    Step        `json:"ordered,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// PolicyAllows is the type of the condition that says whether limits for storms hold this NodeFence up.
const PolicyAllows = "PolicyAllows"

// Condition has the form of the conditions of Kubernetes.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message,omitempty"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// Held is the limit that holds this NodeFence up; empty: none does.
func (s *Status) Held() string {
	for _, c := range s.Conditions {
		if c.Type == PolicyAllows && c.Status == "False" {
			return c.Reason
		}
	}
	return ""
}

// Clone has nothing in common with s.
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

// Node is what the API server shows of the Node.
type Node struct {
	Exists        bool
	UID, Boot     string
	Ready         bool
	NotReadySince time.Time
	Heartbeat     string
	Silent        bool   // its Lease was not renewed for as long as it lasts, by the reader's own clock
	Kept          bool   // a person wants it left alone, or it is being removed
	Fenced        string // the boot that it shows, if the recovery believes the agents that it has ended
	Disputed      string // the boot that it shows, if it was called dead, and was heard after that
	// Seen are the nodes whose agents say at present that they see the boot that it shows; none if they are not enough.
	Seen []string
}

// Job is what the API server shows of a Job of this NodeFence.
type Job struct {
	Name, UID, Version  string
	Suspended           bool
	NotAfter            time.Time
	Finished, Succeeded bool
	Reported            bool // its executor has said how it ended
	Unknown             bool // and that is: it does not know what it was asked for, as one of an older version
	Off                 bool // and that is: the plug is off
	Barrier             bool // and each logical unit was reset after that
	Node, Message       string
}

// Facts are all that a decision rests on.
type Facts struct {
	Now     time.Time
	Object  *Object // nil: there is none
	Node    Node
	Config  *fenceconfig.Node // nil: the node is not managed
	Cluster fenceconfig.Cluster
	Jobs    []Job         // of this NodeFence
	Crash   kdump.Verdict // what this replica has heard of its crash kernel
	Policy  storm.Verdict // whether the next step that isolates the node or cuts its power may begin
	Wish    string        // the UID of a remediation that wants it to begin now
	First   Step          // with which the wish wants it to begin; empty: isolation
	// Returning is how long this replica has seen that the storages are about to be given back ([Status.Returns]).
	Returning time.Duration
}

// Kind is what an [Action] does.
type Kind int

// The kinds.
const (
	Wait            Kind = iota // look again at Until, or when something changes
	Create                      // the NodeFence, with Spec and Status
	Update                      // its Status, if it still has Version
	CreateJob                   // Name, suspended, for Method and Role
	StartJob                    // Name of UID
	DeleteJob                   // Name of UID, if it still has Version
	Delete                      // the NodeFence of UID
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
	Methods            []fenceconfig.Method // of the role plan: all of the node
	Role               Role
	Timeout            time.Duration
	NotAfter           time.Time
	Wish               string   // whose NodeFence this is
	Held               string   // by which limit for storms nothing begins
	Avoid              []string // nodes on which a Job has failed: others are better
	Why                string   // for the log, and for people where something begins or ends
}
