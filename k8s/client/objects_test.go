package client

import (
	"bytes"
	"encoding/json"

	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// real is a Node as an API server sends it, including fields of every kind that the agent does not read.
func real(name string) corev1.Node {
	at := metav1.NewTime(time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC))
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), ResourceVersion: "42", Generation: 3, CreationTimestamp: at, DeletionTimestamp: &at,
			Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "", "d": "e"}, Finalizers: []string{"f"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1("{}")}},
		},
		Spec: corev1.NodeSpec{
			PodCIDR: "10.0.0.0/24", ProviderID: "p", Unschedulable: true,
			Taints: []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoExecute, TimeAdded: &at}, {Key: "l"}},
		},
		Status: corev1.NodeStatus{
			Capacity: corev1.ResourceList{"cpu": resource.MustParse("4")}, Phase: corev1.NodeRunning,
			Conditions: []corev1.NodeCondition{
				{Type: "MemoryPressure", Status: corev1.ConditionFalse, LastHeartbeatTime: at, Reason: "r", Message: "m"},
				{Type: corev1.NodeReady, Status: corev1.ConditionUnknown},
			},
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeHostName, Address: name}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
			NodeInfo:        corev1.NodeSystemInfo{KernelVersion: "6.1", BootID: "b"},
			Images:          []corev1.ContainerImage{{Names: []string{"i"}, SizeBytes: 1 << 40}},
		},
	}
}

// read returns the part of the Node that must arrive.
func read(n *corev1.Node) Node {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	var out Node
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}

// Guard: the agent reads from an API server's answers the same as the types of k8s.io/api/core/v1, in both encodings,
// in lists and in watches.
func TestNodesAreThoseOfTheAPI(t *testing.T) {
	full := runtime.NewScheme()
	if err := corev1.AddToScheme(full); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		info, ok := runtime.SerializerInfoForMediaType(serializer.NewCodecFactory(full).SupportedMediaTypes(), kind)
		if !ok {
			t.Fatal(kind)
		}
		nodes := []corev1.Node{real("n1"), real("n2"), {}}
		nodes[1].DeletionTimestamp, nodes[1].Spec, nodes[1].Status = nil, corev1.NodeSpec{}, corev1.NodeStatus{}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			if r.URL.Query().Get("watch") == "" {
				_ = info.Serializer.Encode(&corev1.NodeList{
					TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "99", Continue: "more"}, Items: nodes,
				}, w)
				return
			}
			w.Header().Set("Content-Type", kind+";stream=watch")
			frames := info.StreamSerializer.NewFrameWriter(w)
			for _, o := range []runtime.Object{
				&corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: nodes[0].ObjectMeta, Spec: nodes[0].Spec, Status: nodes[0].Status},
				&metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: 410, Reason: metav1.StatusReasonExpired},
			} {
				var one, event bytes.Buffer
				if err := info.Serializer.Encode(o, &one); err != nil {
					t.Error(err)
				}
				what := "ADDED"
				if _, is := o.(*metav1.Status); is {
					what = "ERROR"
				}
				if err := info.StreamSerializer.Encode(&metav1.WatchEvent{Type: what, Object: runtime.RawExtension{Raw: one.Bytes()}}, &event); err != nil {
					t.Error(err)
				}
				_, _ = frames.Write(event.Bytes())
			}
		}))
		defer server.Close()
		c, err := NewFor(&rest.Config{Host: server.URL}, nil)
		if err != nil {
			t.Fatal(err)
		}
		core, err := c.For(Core)
		if err != nil {
			t.Fatal(err)
		}
		list := &NodeList{}
		if err := core.Get().Resource("nodes").Do(t.Context()).Into(list); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if list.ResourceVersion != "99" || list.Continue != "more" || len(list.Items) != len(nodes) {
			t.Fatalf("%s: %+v", kind, list)
		}
		for i := range nodes {
			if want := read(&nodes[i]); !same(&list.Items[i], &want) {
				t.Errorf("%s: %+v\nwant %+v", kind, list.Items[i], want)
			}
		}
		stream, err := core.Get().Resource("nodes").Param("watch", "true").Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Stop()
		n, _ := (<-stream.ResultChan()).Object.(*Node)
		if want := read(&nodes[0]); n == nil || !same(n, &want) || !same(n.DeepCopyObject().(*Node), n) {
			t.Errorf("%s: watched %+v", kind, n)
		}
		if s, is := (<-stream.ResultChan()).Object.(*metav1.Status); !is || s.Code != 410 {
			t.Errorf("%s: watched %v instead of the status", kind, s)
		}
	}
}

// same compares the fields that the agent reads. The two ways give times different locations.
func same(a, b *Node) bool {
	text := func(n *Node) string {
		c := n.clone()
		c.TypeMeta = metav1.TypeMeta{}
		b, err := json.Marshal(c)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	return text(a) == text(b)
}

// Guard: a deep copy shares nothing.
func TestDeepCopies(t *testing.T) {
	n := real("n1")
	a := &NodeList{Items: []Node{read(&n)}}
	b := a.DeepCopyObject().(*NodeList)
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("%+v\n%+v", a, b)
	}
	i := &b.Items[0]
	i.Labels["a"], i.Spec.Taints[0].Key, i.Status.Conditions[0].Type, i.Status.Addresses[0].Address = "x", "x", "x", "x"
	want := read(&n)
	if !reflect.DeepEqual(a.Items[0], want) {
		t.Error("the copy has changed the original")
	}
}

// Any Node that a server may send is read like the types of k8s.io/api/core/v1 do, and no input makes the decoder
// panic.
func FuzzNode(f *testing.F) {
	n := real("n1")
	text, err := n.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	for _, cut := range []int{len(text), len(text) - 1, len(text) / 2, 1, 0} {
		f.Add(text[:cut])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = (&Node{}).Unmarshal(data), (&NodeList{}).Unmarshal(data)
		var theirs corev1.Node
		if theirs.Unmarshal(data) != nil {
			return
		}
		sent, err := theirs.Marshal()
		if err != nil {
			return
		}
		var mine Node
		if err := mine.Unmarshal(sent); err != nil {
			t.Fatalf("%v: %+v", err, theirs)
		}
		theirs.Reset()
		if theirs.Unmarshal(sent) != nil {
			return
		}
		if !reflect.DeepEqual(mine.ObjectMeta, theirs.ObjectMeta) {
			t.Errorf("%+v\nwant %+v", mine.ObjectMeta, theirs.ObjectMeta)
		}
		for i := range theirs.Spec.Taints {
			if mine.Spec.Taints[i].Key != theirs.Spec.Taints[i].Key {
				t.Errorf("%+v\nwant %+v", mine.Spec, theirs.Spec)
			}
		}
		for i, c := range theirs.Status.Conditions {
			if mine.Status.Conditions[i] != (NodeCondition{string(c.Type), string(c.Status)}) {
				t.Errorf("%+v\nwant %+v", mine.Status, theirs.Status)
			}
		}
		for i, a := range theirs.Status.Addresses {
			if mine.Status.Addresses[i] != (NodeAddress{string(a.Type), a.Address}) {
				t.Errorf("%+v\nwant %+v", mine.Status, theirs.Status)
			}
		}
	})
}
