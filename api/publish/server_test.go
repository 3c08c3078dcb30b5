package publish

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

func TestNewNeedsAHub(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Fatal("a server without a hub was made")
	}
}

func TestHealthFollowsReady(t *testing.T) {
	f := serve(t, HubConfig{}, Config{})
	ctx, c := testContext(t), healthpb.NewHealthClient(f.dial(t, nil))
	for _, ready := range []bool{false, true, false} {
		want := healthpb.HealthCheckResponse_NOT_SERVING
		if f.server.SetReady(ready); ready {
			want = healthpb.HealthCheckResponse_SERVING
		}
		for _, service := range []string{"", "fencing.v1.Fencing", "fencing.v1.FencingStatus", "fencing.v1.FencingControl"} {
			got, err := c.Check(ctx, &healthpb.HealthCheckRequest{Service: service})
			if err != nil || got.GetStatus() != want {
				t.Errorf("health of %q is %v, %v; want %v", service, got, err, want)
			}
		}
	}
	if _, err := c.Check(ctx, &healthpb.HealthCheckRequest{Service: "other"}); status.Code(err) != codes.NotFound {
		t.Errorf("health of an unknown service: %v", err)
	}
}

// TestHealthWatchDoesNotHinderStop: clients like kubelet watch for ever.
func TestHealthWatchDoesNotHinderStop(t *testing.T) {
	f := serve(t, HubConfig{}, Config{})
	f.server.SetReady(true)
	ctx := testContext(t)
	watch, err := healthpb.NewHealthClient(f.dial(t, nil)).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Fatal(got, err)
	}
	if err := f.server.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		var got *healthpb.HealthCheckResponse
		if got, err = watch.Recv(); err == nil && got.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("while stopping health is %v", got)
		}
	}
}

func TestReflectionDescribesTheServices(t *testing.T) {
	f := serve(t, HubConfig{}, Config{})
	stream, err := reflectionpb.NewServerReflectionClient(f.dial(t, nil)).ServerReflectionInfo(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	var names []string
	list := ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	for _, s := range list.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	for _, want := range []string{"fencing.v1.Fencing", "fencing.v1.FencingStatus", "fencing.v1.FencingControl", "grpc.health.v1.Health"} {
		if !slices.Contains(names, want) {
			t.Errorf("services are %v, without %s", names, want)
		}
		file := ask(&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: want},
		}).GetFileDescriptorResponse().GetFileDescriptorProto()
		if len(file) == 0 || proto.Unmarshal(file[0], new(descriptorpb.FileDescriptorProto)) != nil {
			t.Errorf("%s is not described", want)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
}

// TestAPanicDoesNotEndTheAgent: if an agent dies, its node is reset.
func TestAPanicDoesNotEndTheAgent(t *testing.T) {
	var text bytes.Buffer
	f := serve(t, HubConfig{}, Config{
		Status: func() *fencingv1.Status { panic("out of order") },
		Log:    slog.New(slog.NewTextHandler(&text, nil)),
	})
	f.hub.Update(nodes("n1"), nil)
	ctx, conn := testContext(t), f.dial(t, nil)
	c := fencingv1.NewFencingStatusClient(conn)
	if _, err := c.GetStatus(ctx, &emptypb.Empty{}); status.Code(err) != codes.Internal {
		t.Errorf("GetStatus: %v", err)
	}
	watch, err := c.WatchStatus(ctx, &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.Internal {
		t.Errorf("WatchStatus: %v", err)
	}
	if _, err := fencingv1.NewFencingClient(conn).GetAll(ctx, &emptypb.Empty{}); err != nil {
		t.Errorf("GetAll after the panic: %v", err)
	}
	if err := f.server.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "out of order") || !strings.Contains(text.String(), "server_test.go") {
		t.Errorf("the log does not tell the panic and its place:\n%s", &text)
	}
}

func TestStopMayComeFirstAndTwice(t *testing.T) {
	f := serve(t, HubConfig{}, Config{})
	for range 2 {
		if err := f.server.Stop(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.client(t).GetAll(testContext(t), &emptypb.Empty{}); status.Code(err) != codes.Unavailable {
		t.Errorf("GetAll after Stop: %v", err)
	}
}

func TestStatusOfContextErrors(t *testing.T) {
	for err, want := range map[error]codes.Code{
		context.Canceled: codes.Canceled, context.DeadlineExceeded: codes.DeadlineExceeded,
		ErrSlow: codes.ResourceExhausted, ErrNotReady: codes.Unavailable, nil: codes.OK,
	} {
		if got := status.Code(statusOf(err)); got != want {
			t.Errorf("%v becomes %v, want %v", err, got, want)
		}
	}
}
