package publish

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// foreign is a client that knows the text of the contract and none of our generated code.
type foreign struct {
	conn *grpc.ClientConn
	file protoreflect.FileDescriptor
}

func compileContract(t *testing.T) protoreflect.FileDescriptor {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(
		&protocompile.SourceResolver{ImportPaths: []string{"testdata"}})}
	files, err := compiler.Compile(t.Context(), "contract.proto")
	if err != nil {
		t.Fatal(err)
	}
	return files[0]
}

func (c foreign) method(name protoreflect.Name) (path string, answer *dynamicpb.Message) {
	service := c.file.Services().ByName("Fencing")
	m := service.Methods().ByName(name)
	return "/" + string(service.FullName()) + "/" + string(name), dynamicpb.NewMessage(m.Output())
}

func (c foreign) getAll(ctx context.Context) (*dynamicpb.Message, error) {
	path, answer := c.method("GetAll")
	return answer, c.conn.Invoke(ctx, path, new(emptypb.Empty), answer)
}

func (c foreign) streamEvents(t *testing.T, ctx context.Context) func() *dynamicpb.Message {
	t.Helper()
	path, _ := c.method("StreamEvents")
	stream, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, path)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(new(emptypb.Empty)); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	return func() *dynamicpb.Message {
		_, answer := c.method("StreamEvents")
		if err := stream.RecvMsg(answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
}

// get reads a field by the name the contract gives it.
func get(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(name))
}

func TestForeignClientReceivesLeftAndJoin(t *testing.T) {
	f := serve(t, HubConfig{Source: "n1"}, Config{})
	f.hub.Update(nodes("n1", "n2", "n3"), nil)
	c := foreign{f.dial(t, nil), compileContract(t)}
	ctx := testContext(t)

	next := c.streamEvents(t, ctx)
	all, err := c.getAll(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n := get(all, "nodes").List().Len(); n != 3 {
		t.Fatalf("GetAll has %d nodes", n)
	}
	f.hub.Publish(left("n3"))
	f.hub.Publish(join("n3"))

	for _, want := range []struct {
		kind protoreflect.Name
		prev bool
	}{{"LEFT", false}, {"JOIN", true}} {
		ev := next()
		kind := ev.Descriptor().Fields().ByName("type").Enum().Values().ByNumber(get(ev, "type").Enum())
		if kind == nil || kind.Name() != want.kind {
			t.Fatalf("event is %v, want %s", kind, want.kind)
		}
		who := get(ev, "node").Message()
		if name := get(who, "name").String(); name != "n3" {
			t.Errorf("node is %q", name)
		}
		addresses := get(who, "addresses").Map()
		if addresses.Len() != 2 {
			t.Errorf("%s has %d addresses, want one on each of two networks", want.kind, addresses.Len())
		}
		addresses.Range(func(network protoreflect.MapKey, ip protoreflect.Value) bool {
			if _, err := netip.ParseAddr(ip.String()); err != nil || network.String() == "" {
				t.Errorf("address %q -> %q: %v", network, ip, err)
			}
			return true
		})
		if has := who.Has(who.Descriptor().Fields().ByName("prevDisconnectTime")); has != want.prev {
			t.Errorf("%s has prevDisconnectTime: %t", want.kind, has)
		}
		if !ev.Has(ev.Descriptor().Fields().ByName("time")) || get(ev, "sourceName").String() != "n1" {
			t.Errorf("event lacks time or source: %v", ev)
		}
	}
}

// TestWireCompatibility converts our messages to the contract's and back, with all fields set.
func TestWireCompatibility(t *testing.T) {
	file := compileContract(t)
	node := &fencingv1.Node{
		Name: "n1", Addresses: map[string]string{"mgmt": "10.0.0.1", "data": "fd00::1"},
		PrevDisconnectTime: &timestamppb.Timestamp{Seconds: 7, Nanos: 9},
	}
	event := &fencingv1.Event{
		Node: node, Time: &timestamppb.Timestamp{Seconds: 1 << 33}, Type: fencingv1.EventType_JOIN, SourceName: proto.String(""),
	}
	for _, ours := range []proto.Message{node, event, &fencingv1.AllNodes{Nodes: []*fencingv1.Node{node, {Name: "n2"}}}} {
		name := ours.ProtoReflect().Descriptor().Name()
		wire, err := proto.Marshal(ours)
		if err != nil {
			t.Fatal(err)
		}
		theirs := dynamicpb.NewMessage(file.Messages().ByName(name))
		if err := proto.Unmarshal(wire, theirs); err != nil {
			t.Fatal(err)
		}
		if a, b := protojson.Format(ours), protojson.Format(theirs); squeeze(a) != squeeze(b) {
			t.Errorf("%s reads\n%s\nby the contract:\n%s", name, a, b)
		}
		if wire, err = proto.Marshal(theirs); err != nil {
			t.Fatal(err)
		}
		back := ours.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(wire, back); err != nil || !proto.Equal(ours, back) {
			t.Errorf("%s came back as %v (%v)", name, back, err)
		}
	}
}

// squeeze removes the spaces that protojson varies on purpose.
func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

// TestContractIsKept compares every declaration of the contract with what the server serves. The server may offer more,
// but nothing less or different.
func TestContractIsKept(t *testing.T) {
	theirs, ours := compileContract(t), fencingv1.File_fencing_agent_api_v1_fencing_proto
	for i := range theirs.Messages().Len() {
		m := theirs.Messages().Get(i)
		got := ours.Messages().ByName(m.Name())
		if got == nil {
			t.Fatalf("message %s is gone", m.FullName())
		}
		for j := range m.Fields().Len() {
			compareField(t, m.Fields().Get(j), got.Fields())
		}
	}
	for i := range theirs.Enums().Len() {
		e := theirs.Enums().Get(i)
		for j := range e.Values().Len() {
			v := e.Values().Get(j)
			if got := ours.Enums().ByName(e.Name()).Values().ByName(v.Name()); got == nil || got.Number() != v.Number() {
				t.Errorf("enum value %s is now %v", v.FullName(), got)
			}
		}
	}
	service := theirs.Services().Get(0)
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		got := ours.Services().ByName(service.Name()).Methods().ByName(m.Name())
		if got == nil || got.Input().FullName() != m.Input().FullName() || got.Output().FullName() != m.Output().FullName() ||
			got.IsStreamingClient() != m.IsStreamingClient() || got.IsStreamingServer() != m.IsStreamingServer() {
			t.Errorf("method %s is now %v", m.FullName(), got)
		}
	}
}

func compareField(t *testing.T, want protoreflect.FieldDescriptor, fields protoreflect.FieldDescriptors) {
	t.Helper()
	got := fields.ByNumber(want.Number())
	if got == nil || got.Name() != want.Name() || got.Kind() != want.Kind() || got.Cardinality() != want.Cardinality() ||
		got.HasPresence() != want.HasPresence() || got.IsMap() != want.IsMap() || got.JSONName() != want.JSONName() {
		t.Errorf("field %s is now %v", want.FullName(), got)
		return
	}
	if want.Message() != nil && want.Message().FullName() != got.Message().FullName() {
		t.Errorf("field %s is now of type %s", want.FullName(), got.Message().FullName())
	}
}
