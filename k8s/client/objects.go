package client

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Core is the API group of Nodes and Events.
var Core = schema.GroupVersion{Version: "v1"}

// Node is the part of a v1 Node that the agent reads; the agent never writes a Node as a whole. The package
// k8s.io/api/core/v1 is not linked for it: its registration would keep every type of that package, with all methods, in
// the program, which is a fifth of the agent.
type Node struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   NodeSpec   `json:"spec"`
	Status NodeStatus `json:"status"`
}

// NodeSpec is the part of a Node's spec that the agent reads.
type NodeSpec struct {
	Taints []Taint `json:"taints"`
}

// Taint is the part of a taint that the agent reads.
type Taint struct {
	Key string `json:"key"`
}

// NodeStatus is the part of a Node's status that the agent reads.
type NodeStatus struct {
	Conditions []NodeCondition `json:"conditions"`
	Addresses  []NodeAddress   `json:"addresses"`
}

// NodeCondition is the part of a condition that the agent reads.
type NodeCondition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

// NodeAddress is an address of a Node.
type NodeAddress struct {
	Type    string `json:"type"`
	Address string `json:"address"`
}

// NodeList is a list of Nodes.
type NodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Node `json:"items"`
}

func addCore(s *runtime.Scheme) error {
	s.AddKnownTypes(Core, &Node{}, &NodeList{}, &metav1.Status{})
	metav1.AddToGroupVersion(s, Core)
	return nil
}

func (n *Node) DeepCopyObject() runtime.Object { return n.clone() }

func (n *Node) clone() *Node {
	c := &Node{TypeMeta: n.TypeMeta}
	n.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Taints = slices.Clone(n.Spec.Taints)
	c.Status.Conditions, c.Status.Addresses = slices.Clone(n.Status.Conditions), slices.Clone(n.Status.Addresses)
	return c
}

func (l *NodeList) DeepCopyObject() runtime.Object {
	c := &NodeList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].clone())
	}
	return c
}

// Reset and Unmarshal are the methods that client-go's protobuf decoder calls. The numbers of the fields are those of
// k8s.io/api/core/v1/generated.proto, which never change.

// Reset empties the Node.
func (n *Node) Reset() { *n = Node{} }

// Unmarshal reads a message Node.
func (n *Node) Unmarshal(data []byte) error {
	return fields(data, func(number protowire.Number, value []byte) error {
		switch number {
		case 1:
			return n.ObjectMeta.Unmarshal(value)
		case 2:
			return n.Spec.unmarshal(value)
		case 3:
			return n.Status.unmarshal(value)
		}
		return nil
	})
}

// Reset empties the list.
func (l *NodeList) Reset() { *l = NodeList{} }

// Unmarshal reads a message NodeList.
func (l *NodeList) Unmarshal(data []byte) error {
	return fields(data, func(number protowire.Number, value []byte) error {
		switch number {
		case 1:
			return l.ListMeta.Unmarshal(value)
		case 2:
			l.Items = append(l.Items, Node{})
			return l.Items[len(l.Items)-1].Unmarshal(value)
		}
		return nil
	})
}

func (s *NodeSpec) unmarshal(data []byte) error {
	return fields(data, func(number protowire.Number, value []byte) error {
		if number != 5 {
			return nil
		}
		s.Taints = append(s.Taints, Taint{})
		return texts(value, &s.Taints[len(s.Taints)-1].Key)
	})
}

func (s *NodeStatus) unmarshal(data []byte) error {
	return fields(data, func(number protowire.Number, value []byte) error {
		switch number {
		case 4:
			s.Conditions = append(s.Conditions, NodeCondition{})
			c := &s.Conditions[len(s.Conditions)-1]
			return texts(value, &c.Type, &c.Status)
		case 5:
			s.Addresses = append(s.Addresses, NodeAddress{})
			a := &s.Addresses[len(s.Addresses)-1]
			return texts(value, &a.Type, &a.Address)
		}
		return nil
	})
}

// texts reads the first fields of a message, all of which are strings.
func texts(data []byte, to ...*string) error {
	return fields(data, func(number protowire.Number, value []byte) error {
		if int(number) <= len(to) {
			*to[number-1] = string(value)
		}
		return nil
	})
}

// fields calls f for each field of a message that is encoded with a length. All fields that are read here are of that
// kind. Other fields are skipped, as unknown ones are.
func fields(data []byte, f func(protowire.Number, []byte) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return fmt.Errorf("object of the API: %w", protowire.ParseError(n))
		}
		data = data[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
				return fmt.Errorf("object of the API: %w", protowire.ParseError(n))
			}
			data = data[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return fmt.Errorf("object of the API: %w", protowire.ParseError(n))
		}
		if err := f(number, value); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
