package distributedapp

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of this project's objects.
var GroupVersion = schema.GroupVersion{Group: "fencing-agent.io", Version: "v1alpha1"}

// Name is the name of the operator and of the objects that belong to it. ManagedBy is the label by which pods are
// watched. A pod's owner reference names its app. The finalizer keeps a DistributedApp until its pods are gone.
const (
	Name      = "distributedapp-operator"
	ManagedBy = "app.kubernetes.io/managed-by"

	finalizer = "fencing-agent.io/distributed-app"
	kind      = "DistributedApp"
)

// DistributedApp asks for a number of equal pods.
type DistributedApp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitzero"`
}

// Spec is what a person asks for.
type Spec struct {
	Replicas         int32  `json:"replicas"`
	ApplicationImage string `json:"applicationImage"`
	ConfigMapName    string `json:"configMapName,omitempty"` // its data is the environment of the pods
}

// Status is written by the last replica that finished with the app.
type Status struct {
	ReconciledByPod    string      `json:"reconciledByPod,omitempty"`
	LastReconcileTime  metav1.Time `json:"lastReconcileTime,omitzero"`
	ActivePods         []string    `json:"activePods,omitempty"` // the replicas of the operator that it knew of
	ObservedGeneration int64       `json:"observedGeneration,omitempty"`
	ConfigVersion      string      `json:"configVersion,omitempty"` // a number as text: a number in JSON has only 53 bits
}

// DistributedAppList is a list of DistributedApps.
type DistributedAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DistributedApp `json:"items"`
}

// AddToScheme makes the types known to a client.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &DistributedApp{}, &DistributedAppList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

func (d *DistributedApp) DeepCopyObject() runtime.Object { return deepCopy(d, &DistributedApp{}) }

func (l *DistributedAppList) DeepCopyObject() runtime.Object {
	return deepCopy(l, &DistributedAppList{})
}

// deepCopy uses JSON, in which these objects are stored as well: no field can be forgotten.
func deepCopy[T any](from, to T) T {
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		panic(fmt.Sprintf("copy a DistributedApp: %v", err)) // the types of the object make this impossible
	}
	return to
}

// MessageKind is what a message is about.
type MessageKind string

const (
	Reconcile MessageKind = "reconcile" // an app that was created or changed
	Delete    MessageKind = "delete"    // one that is being deleted
	Configure MessageKind = "config"    // there is this version of the operator's configuration
)

// Message is what replicas send each other. See D5.
type Message struct {
	Kind      MessageKind `json:"kind"`
	Namespace string      `json:"crNamespace,omitempty"`
	Name      string      `json:"crName,omitempty"`
	Origin    string      `json:"originPod"`
	Timestamp int64       `json:"timestamp"` // when it was created, in nanoseconds; for people
	Version   uint64      `json:"configVersion,omitempty"`
}
