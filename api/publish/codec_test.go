package publish

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// TestCodecTakesWhatIsEncoded: an event that was encoded once is sent with the bytes of its message, and any other
// message is encoded as usual.
func TestCodecTakesWhatIsEncoded(t *testing.T) {
	ev := &fencingv1.Event{Node: &fencingv1.Node{Name: "n1", Addresses: map[string]string{"mgmt": "10.0.0.1"}}, Type: fencingv1.EventType_JOIN}
	once, err := newCodec().Marshal(encode(ev))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a stream frees the buffer after sending it, and the next stream sends the same bytes
		got := &fencingv1.Event{}
		if err := newCodec().Unmarshal(once, got); err != nil || !proto.Equal(got, ev) {
			t.Fatalf("%v, %v; want %v", got, err, ev)
		}
		once.Free()
	}
	plain, err := newCodec().Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	got := &fencingv1.Event{}
	if err := proto.Unmarshal(plain.Materialize(), got); err != nil || !proto.Equal(got, ev) {
		t.Fatalf("%v, %v; want %v", got, err, ev)
	}
}

// TestEventIsEncodedOnce: all subscribers get the same bytes.
func TestEventIsEncodedOnce(t *testing.T) {
	hub := NewHub(HubConfig{})
	hub.Update(nodes("n1", "n2"), nil)
	a, b := subscribe(t, hub), subscribe(t, hub)
	hub.Publish(left("n2"))
	first, err := a.next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := b.next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first.encoded == nil || first.encoded != second.encoded {
		t.Errorf("encoded apart: %p, %p", first.encoded, second.encoded)
	}
}

// TestEventThatCannotBeEncodedEndsTheStream: the event is not left out silently.
func TestEventThatCannotBeEncodedEndsTheStream(t *testing.T) {
	f := serve(t, HubConfig{}, Config{})
	f.hub.Update(nodes("n1"), nil)
	stream, _ := open(t, testContext(t), f.client(t))
	f.hub.Publish(Edge{Type: fencingv1.EventType_JOIN, Node: Node{Name: "\xff"}})
	wantEnd(t, stream, codes.Internal)
}
