package publish

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// Guard: only root is allowed, and only a caller that the kernel identifies.
func TestRootOnly(t *testing.T) {
	with := func(p *peer.Peer) context.Context { return peer.NewContext(t.Context(), p) }
	for name, c := range map[string]struct {
		ctx  context.Context
		want codes.Code
	}{
		"root":                {with(&peer.Peer{AuthInfo: process{known: true, pid: 7}}), codes.OK},
		"a user":              {with(&peer.Peer{AuthInfo: process{known: true, pid: 7, uid: 1000}}), codes.PermissionDenied},
		"nobody knows":        {with(&peer.Peer{AuthInfo: process{}}), codes.PermissionDenied},
		"no credentials":      {with(&peer.Peer{}), codes.PermissionDenied},
		"no peer":             {t.Context(), codes.PermissionDenied},
		"another user's root": {with(&peer.Peer{AuthInfo: process{known: true, uid: 65534}}), codes.PermissionDenied},
	} {
		if err := RootOnly(c.ctx); status.Code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func confirm(t *testing.T, f *fixture, req *fencingv1.ConfirmDeadRequest) (*fencingv1.ConfirmDeadResponse, error) {
	t.Helper()
	return fencingv1.NewFencingControlClient(f.dial(t, nil)).ConfirmDead(testContext(t), req)
}

func wellFormed() *fencingv1.ConfirmDeadRequest {
	return &fencingv1.ConfirmDeadRequest{Node: "n4", BootNonce: "024bc581b3a34be3", Proof: fencingv1.Proof_PROOF_OPERATOR, By: "alice"}
}

// Guard: a caller without permission is refused before anything is examined, and the refusal is logged.
func TestConfirmDeadAsksWhoItIs(t *testing.T) {
	var text bytes.Buffer
	asked := false
	f := serve(t, HubConfig{}, Config{
		Log:     slog.New(slog.NewTextHandler(&text, nil)),
		MayTell: func(context.Context) error { return status.Error(codes.PermissionDenied, "no") },
		Tell: func(context.Context, ToldDeath) (*fencingv1.Death, error) {
			asked = true
			return nil, nil
		},
	})
	if _, err := confirm(t, f, wellFormed()); status.Code(err) != codes.PermissionDenied || asked {
		t.Errorf("%v, asked %v", err, asked)
	}
	if !strings.Contains(text.String(), "the caller may not give one") || !strings.Contains(text.String(), "client.pid=") {
		t.Errorf("the log: %s", text.String())
	}
}

func TestConfirmDead(t *testing.T) {
	var text bytes.Buffer
	var got ToldDeath
	var refuse error
	f := serve(t, HubConfig{}, Config{
		Log:     slog.New(slog.NewTextHandler(&text, nil)),
		MayTell: func(context.Context) error { return nil },
		Tell: func(_ context.Context, d ToldDeath) (*fencingv1.Death, error) {
			got = d
			return &fencingv1.Death{BootNonce: "024bc581b3a34be3"}, refuse
		},
	})
	r, err := confirm(t, f, wellFormed())
	if err != nil || r.GetDeath().GetBootNonce() != "024bc581b3a34be3" || got.Boot != 0x024bc581b3a34be3 || got.By != "alice" || got.Time.IsZero() {
		t.Errorf("%v, %v, %+v", r, err, got)
	}
	refuse = errors.New("n2 sees n4: it runs")
	if _, err = confirm(t, f, wellFormed()); status.Code(err) != codes.FailedPrecondition || status.Convert(err).Message() != "n2 sees n4: it runs" {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"accepted external", "refused external", "by=alice", "proof=operator", "peer=n4", "boot=024bc581b3a34be3"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the log does not say %q: %s", want, text.String())
		}
	}
}

// The text that a caller writes is checked, and all faults are reported at once.
func TestConfirmDeadChecksWhatIsWritten(t *testing.T) {
	for want, change := range map[string]func(*fencingv1.ConfirmDeadRequest){
		"node is missing": func(r *fencingv1.ConfirmDeadRequest) { r.Node = "" },
		"by is missing":   func(r *fencingv1.ConfirmDeadRequest) { r.By = "" },
		"by must be printable ASCII, of at most 64 characters":         func(r *fencingv1.ConfirmDeadRequest) { r.By = "a\nb" },
		"reference must be printable ASCII, of at most 128 characters": func(r *fencingv1.ConfirmDeadRequest) { r.Reference = strings.Repeat("x", 129) },
		"reference is missing": func(r *fencingv1.ConfirmDeadRequest) { r.Proof = fencingv1.Proof_PROOF_KDUMP },
		"boot_nonce must be 16 hexadecimal digits, as in NodeStatus.boot_nonce":                                 func(r *fencingv1.ConfirmDeadRequest) { r.BootNonce = "0000000000000000" },
		"proof must be PROOF_OPERATOR, PROOF_POWER or PROOF_KDUMP: the agents find all other proofs themselves": func(r *fencingv1.ConfirmDeadRequest) { r.Proof = fencingv1.Proof_PROOF_SENTENCE },
	} {
		r := wellFormed()
		change(r)
		if _, err := toldDeath(r); err == nil || status.Convert(err).Message() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := toldDeath(&fencingv1.ConfirmDeadRequest{}); err == nil || strings.Count(status.Convert(err).Message(), ";") != 3 {
		t.Errorf("all at once: %v", err)
	}
}

func FuzzToldDeath(f *testing.F) {
	f.Add("n4", "024bc581b3a34be3", int32(6), "alice", "job", "off")
	f.Add("", "0", int32(-1), "\x1b", "é", strings.Repeat("x", 300))
	f.Fuzz(func(t *testing.T, node, boot string, proof int32, by, reference, reason string) {
		d, err := toldDeath(&fencingv1.ConfirmDeadRequest{Node: node, BootNonce: boot, Proof: fencingv1.Proof(proof), By: by, Reference: reference, Reason: reason})
		if err != nil {
			return
		}
		if d.Boot == 0 || d.By == "" || len(d.By) > maxBy || len(d.Node) > maxNode || len(d.Reference) > maxReference || len(d.Reason) > maxReason ||
			strings.ContainsFunc(d.Node+d.By+d.Reference+d.Reason, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%+v", d)
		}
	})
}
