package fencing

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fencing-agent/fencing-agent/k8s/grouppolicy"
)

// FencingGroup says with what the agents of a group should run, and shows which of them do not (docs/adr/0067).
type FencingGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   grouppolicy.Spec   `json:"spec,omitzero"`
	Status grouppolicy.Status `json:"status,omitzero"`
}

// FencingGroupList is several of them.
type FencingGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FencingGroup `json:"items"`
}

// DeepCopyObject is for runtime.Object.
func (g *FencingGroup) DeepCopyObject() runtime.Object { return deepCopy(g, &FencingGroup{}) }

// DeepCopyObject is for runtime.Object.
func (l *FencingGroupList) DeepCopyObject() runtime.Object { return deepCopy(l, &FencingGroupList{}) }
