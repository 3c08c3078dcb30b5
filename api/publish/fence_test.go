package publish

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

func order(t *testing.T, f *fixture, req *fencingv1.FenceRequest) error {
	t.Helper()
	_, err := fencingv1.NewFencingControlClient(f.dial(t, nil)).Fence(testContext(t), req)
	return err
}

func goodOrder() *fencingv1.FenceRequest {
	return &fencingv1.FenceRequest{Node: "n4", BootNonce: "024bc581b3a34be3", By: "alice", Reason: "it hangs"}
}

// Guard: a caller without permission is refused before anything is examined, and the refusal is logged.
func TestFenceAsksWhoItIs(t *testing.T) {
	var text bytes.Buffer
	asked := false
	f := serve(t, HubConfig{}, Config{
		Log:     slog.New(slog.NewTextHandler(&text, nil)),
		MayTell: func(context.Context) error { return status.Error(codes.PermissionDenied, "no") },
		Order:   func(context.Context, FenceOrder) error { asked = true; return nil },
	})
	if err := order(t, f, goodOrder()); status.Code(err) != codes.PermissionDenied || asked {
		t.Errorf("%v, asked %v", err, asked)
	}
	if !strings.Contains(text.String(), "the caller may not give one") || !strings.Contains(text.String(), "client.pid=") {
		t.Errorf("the log: %s", text.String())
	}
}

func TestFence(t *testing.T) {
	var text bytes.Buffer
	var got FenceOrder
	var refuse error
	f := serve(t, HubConfig{}, Config{
		Log:     slog.New(slog.NewTextHandler(&text, nil)),
		MayTell: func(context.Context) error { return nil },
		Order:   func(_ context.Context, o FenceOrder) error { got = o; return refuse },
	})
	if err := order(t, f, goodOrder()); err != nil || got != (FenceOrder{"n4", 0x024bc581b3a34be3, "alice", "it hangs"}) {
		t.Errorf("%v, %+v", err, got)
	}
	refuse = errors.New("without n4 the others would have no majority")
	if err := order(t, f, goodOrder()); status.Code(err) != codes.FailedPrecondition || status.Convert(err).Message() != refuse.Error() {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"a fence order is on its way", "announced its self-fence", "expired without effect", "by=alice", "peer=n4", "boot=024bc581b3a34be3"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the log does not say %q: %s", want, text.String())
		}
	}
	for want, change := range map[string]func(*fencingv1.FenceRequest){
		"node is missing": func(r *fencingv1.FenceRequest) { r.Node = "" },
		"by is missing":   func(r *fencingv1.FenceRequest) { r.By = "" },
		"reason must be printable ASCII, of at most 256 characters": func(r *fencingv1.FenceRequest) { r.Reason = "a\x1b[2J" },
		"boot_nonce must be 16 hexadecimal digits":                  func(r *fencingv1.FenceRequest) { r.BootNonce = "0000000000000000" },
	} {
		req := goodOrder()
		change(req)
		if err := order(t, f, req); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
