package fencing

import (
	"encoding/json"
	"fmt"
	"hash/fnv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

// GroupVersion is the API group and version of this project's objects.
var GroupVersion = schema.GroupVersion{Group: "fencing-agent.io", Version: "v1alpha1"}

const (
	finalizer  = "fencing-agent.io/nodefence"
	namePrefix = "node-fence-"
	mostName   = 253
)

// NodeFence is the fencing of one boot of one node. Its status is not a subresource, so one write changes the start of
// a step and its subject.
type NodeFence struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   nodefence.Spec   `json:"spec"`
	Status nodefence.Status `json:"status,omitzero"`

	read []byte // the object as it was read; nil: it was not read. See unknown.go
}

// NodeFenceList is a list of NodeFences.
type NodeFenceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeFence `json:"items"`
}

// AddToScheme makes the types known to a client.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &NodeFence{}, &NodeFenceList{}, &FencingRemediation{}, &FencingRemediationList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

func (n *NodeFence) DeepCopyObject() runtime.Object {
	c := *n // objects that were read are shared, and never changed
	n.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Status = n.Status.Clone()
	return &c
}

func (l *NodeFenceList) DeepCopyObject() runtime.Object { return deepCopy(l, &NodeFenceList{}) }

// deepCopy uses JSON, in which these objects are stored as well: no field can be forgotten. They are few and small.
func deepCopy[T runtime.Object](from, to T) runtime.Object {
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		panic(fmt.Sprintf("copy a NodeFence: %v", err)) // the types of the object make this impossible
	}
	return to
}

// NameOf returns the name of a node's NodeFence.
func NameOf(node string) string {
	name := namePrefix + node
	if len(name) <= mostName {
		return name
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(node)) // never fails
	return fmt.Sprintf("%s-%016x", name[:mostName-17], h.Sum64())
}
