package distributedapp

import "time"

// Finalizer keeps a DistributedApp until its pods are gone.
const Finalizer = "fencing-agent.io/distributed-app"

// Key names a DistributedApp.
type Key struct{ Namespace, Name string }

func (k Key) String() string { return k.Namespace + "/" + k.Name }

// App is a DistributedApp as the API server shows it.
type App struct {
	Key
	UID, Version string
	Generation   int64
	DeletedAt    time.Time // zero: it is not being deleted
	Finalizer    bool      // ours is on it

	Replicas  int
	Image     string
	ConfigMap string // whose data becomes the environment of the pods; empty: none
	Status    Status
}

// Status is what the latest replica that finished with the app has written.
type Status struct {
	ReconciledByPod   string
	LastReconcileTime time.Time
	ActivePods        []string // replicas of the operator that it knew of
	Observed          int64    // generation
	Config            Config   // by which it was reconciled
}

// Config says which configuration of the operator is meant. Versions grow, and 0 is none; the digest is of its content.
type Config struct {
	Version uint64
	Digest  string
}

// Pod is a pod in the namespace of an app.
type Pod struct {
	Name, UID, Version string
	Owner              string // UID of its controller; empty: none
	Terminating        bool
	Failed             bool // or succeeded: it does not run, and will not
}

// MessageKind is what a message is about.
type MessageKind string

// The kinds.
const (
	Reconcile MessageKind = "reconcile"
	Delete    MessageKind = "delete"
	Configure MessageKind = "config"
)

// Message is what replicas tell each other. See D5.
type Message struct {
	Kind      MessageKind `json:"kind"`
	Namespace string      `json:"crNamespace,omitempty"`
	Name      string      `json:"crName,omitempty"`
	Origin    string      `json:"originPod"`
	Timestamp int64       `json:"timestamp"` // when it was made, in nanoseconds; for people
	Config    Config      `json:"config,omitzero"`
}

// WriteKind is what a write does.
type WriteKind string

// The kinds.
const (
	AddFinalizer    WriteKind = "add finalizer"
	RemoveFinalizer WriteKind = "remove finalizer"
	CreatePod       WriteKind = "create pod"
	DeletePod       WriteKind = "delete pod"
	WriteStatus     WriteKind = "write status"
)

// Write is one request to the API server. It is refused unless the object has this UID and this resourceVersion; a
// CreatePod has neither, and is refused if the name is taken.
type Write struct {
	Kind         WriteKind
	App          Key
	Pod          string // of CreatePod and DeletePod
	UID, Version string
	Owner        string // of CreatePod: UID of the app
	Status       Status // of WriteStatus
}
