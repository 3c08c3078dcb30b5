package operator

import (
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fencing-agent/fencing-agent/k8s/distributedapp"
)

// GroupVersion is that of the objects of this project.
var GroupVersion = schema.GroupVersion{Group: "fencing-agent.io", Version: "v1alpha1"}

const kind = "DistributedApp"

// Name is that of the operator, and of what belongs to it. ManagedBy is the label by which pods are watched. Whose a pod
// is, its owner reference says.
const (
	Name      = "distributedapp-operator"
	ManagedBy = "app.kubernetes.io/managed-by"
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

// Status is what the latest replica that finished with the app has written.
type Status struct {
	ReconciledByPod    string      `json:"reconciledByPod,omitempty"`
	LastReconcileTime  metav1.Time `json:"lastReconcileTime,omitzero"`
	ActivePods         []string    `json:"activePods,omitempty"` // replicas of the operator that it knew of
	ObservedGeneration int64       `json:"observedGeneration,omitempty"`
	ConfigVersion      string      `json:"configVersion,omitempty"` // a number; JSON's have 53 bits
	ConfigDigest       string      `json:"configDigest,omitempty"`
}

// DistributedAppList is several of them.
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

// DeepCopyObject is for runtime.Object.
func (d *DistributedApp) DeepCopyObject() runtime.Object { return deepCopy(d, &DistributedApp{}) }

// DeepCopyObject is for runtime.Object.
func (l *DistributedAppList) DeepCopyObject() runtime.Object {
	return deepCopy(l, &DistributedAppList{})
}

// deepCopy goes by JSON, in which these objects are stored as well: a field cannot be forgotten.
func deepCopy[T runtime.Object](from, to T) runtime.Object {
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		panic(fmt.Sprintf("copy a DistributedApp: %v", err)) // its types are such that this cannot happen
	}
	return to
}

// app is what the core knows of one.
func app(d *DistributedApp) distributedapp.App {
	a := distributedapp.App{
		Key: distributedapp.Key{Namespace: d.Namespace, Name: d.Name}, UID: string(d.UID), Version: d.ResourceVersion, Generation: d.Generation,
		Replicas: int(d.Spec.Replicas), Image: d.Spec.ApplicationImage, ConfigMap: d.Spec.ConfigMapName,
		Status: distributedapp.Status{
			ReconciledByPod: d.Status.ReconciledByPod, LastReconcileTime: d.Status.LastReconcileTime.Time, ActivePods: d.Status.ActivePods,
			Observed: d.Status.ObservedGeneration, Config: distributedapp.Config{Digest: d.Status.ConfigDigest},
		},
	}
	a.Status.Config.Version, _ = strconv.ParseUint(d.Status.ConfigVersion, 10, 64) // what is no number counts as none
	if d.DeletionTimestamp != nil {
		a.DeletedAt = d.DeletionTimestamp.Time
	}
	for _, f := range d.Finalizers {
		a.Finalizer = a.Finalizer || f == distributedapp.Finalizer
	}
	return a
}

// status is what the core wants written.
func status(s distributedapp.Status) Status {
	return Status{
		ReconciledByPod: s.ReconciledByPod, LastReconcileTime: metav1.NewTime(s.LastReconcileTime), ActivePods: s.ActivePods,
		ObservedGeneration: s.Observed, ConfigVersion: strconv.FormatUint(s.Config.Version, 10), ConfigDigest: s.Config.Digest,
	}
}

func pod(p *corev1.Pod) distributedapp.Pod {
	out := distributedapp.Pod{
		Name: p.Name, UID: string(p.UID), Version: p.ResourceVersion, Terminating: p.DeletionTimestamp != nil,
		Failed: p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded,
	}
	if o := metav1.GetControllerOf(p); o != nil {
		out.Owner = string(o.UID)
	}
	return out
}

// ownerOf is the app of a pod, by what its owner reference says.
func ownerOf(p *corev1.Pod) (distributedapp.Key, bool) {
	o := metav1.GetControllerOf(p)
	if o == nil || o.Kind != kind || o.APIVersion != GroupVersion.String() {
		return distributedapp.Key{}, false
	}
	return distributedapp.Key{Namespace: p.Namespace, Name: o.Name}, true
}
