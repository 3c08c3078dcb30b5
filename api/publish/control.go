package publish

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// Texts from a caller are shown to people and logged, so they must be short and printable.
const (
	maxNode      = 253
	maxBy        = 64
	maxReference = 128
	maxReason    = 256
	// maxTelling is the number of reports that may wait for an answer at once.
	maxTelling = 16
	// tellTimeout limits the wait of a call for the answer of the agent's loop.
	tellTimeout = 25 * time.Second
)

// ToldDeath is a death that a program or person on this node reports.
type ToldDeath struct {
	Node                  string
	Boot                  uint64
	Proof                 fencingv1.Proof
	By, Reference, Reason string
	Time                  time.Time // when it was found; for people
}

// Tell passes such a death to the agent's loop and returns the answer. The error gives the reason why the death is not
// believed, or is the context's error.
type Tell func(context.Context, ToldDeath) (*fencingv1.Death, error)

// RootOnly refuses a caller that is not root on this machine, or that the kernel does not identify. User IDs are those
// of the agent's user namespace, so root of another namespace is not root here.
func RootOnly(ctx context.Context) error {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return status.Error(codes.PermissionDenied, "the caller is unknown: call over the agent's Unix socket")
	}
	switch who, ok := p.AuthInfo.(process); {
	case !ok || !who.known:
		return status.Error(codes.PermissionDenied, "the caller is unknown: call over the agent's Unix socket")
	case who.uid != 0:
		return status.Error(codes.PermissionDenied, "only root may confirm that a node is dead, and the caller is user "+strconv.FormatUint(uint64(who.uid), 10)+": run it as root")
	}
	return nil
}

func (s *Server) ConfirmDead(ctx context.Context, req *fencingv1.ConfirmDeadRequest) (*fencingv1.ConfirmDeadResponse, error) {
	if err := s.mayTell(ctx); err != nil {
		s.log.Warn("refused an external confirmation of death: the caller may not give one", peerOf(ctx), "peer", printable(req.GetNode(), maxNode), "error", err)
		return nil, err
	}
	d, err := toldDeath(req)
	if err != nil {
		return nil, err
	}
	if s.tell == nil {
		return nil, statusOf(ErrNotReady)
	}
	what := []any{peerOf(ctx), "peer", d.Node, "boot", req.GetBootNonce(), "proof", proofName(d.Proof), "by", d.By, "reference", d.Reference, "reason", d.Reason, "found", d.Time.UTC()}
	out := &fencingv1.ConfirmDeadResponse{}
	return out, s.ask(ctx, "refused external confirmation that a node is dead", what, func(ctx context.Context) (err error) {
		if out.Death, err = s.tell(ctx, d); err == nil {
			s.log.Warn("accepted external confirmation that a node is dead", what...)
		}
		return err
	})
}

// ask passes a report to the agent's loop, and waits for its decision. If the loop refuses it, the text refused is
// logged with the report.
func (s *Server) ask(ctx context.Context, refused string, what []any, decide func(context.Context) error) error {
	select {
	case s.telling <- struct{}{}:
		defer func() { <-s.telling }()
	default:
		return status.Error(codes.ResourceExhausted, "too many deaths are being confirmed at once: try again")
	}
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	switch err := decide(ctx); {
	case err == nil:
		return nil
	case ctx.Err() != nil && s.stopping.Err() != nil:
		return statusOf(ErrStopped)
	case ctx.Err() != nil:
		return status.Error(codes.Unavailable, "the agent has not decided in time: look at its status before you try again")
	default:
		s.log.Warn(refused, append(what, slog.Any("error", err))...)
		return status.Error(codes.FailedPrecondition, err.Error())
	}
}

// complaints lists everything that is wrong with a request.
type complaints []string

func (c *complaints) add(format string, args ...any) { *c = append(*c, fmt.Sprintf(format, args...)) }

func (c *complaints) text(field, value string, limit int, needed bool) {
	switch {
	case needed && value == "":
		c.add("%s is missing", field)
	case value != printable(value, limit):
		c.add("%s must be printable ASCII, of at most %d characters", field, limit)
	}
}

func (c *complaints) boot(nonce string) uint64 {
	boot, err := strconv.ParseUint(nonce, 16, 64)
	if err != nil || len(nonce) != 16 || boot == 0 {
		c.add("boot_nonce must be 16 hexadecimal digits, as in NodeStatus.boot_nonce")
	}
	return boot
}

// err returns the refusal of the call; nil: nothing is wrong.
func (c complaints) err() error {
	if len(c) == 0 {
		return nil
	}
	return status.Error(codes.InvalidArgument, strings.Join(c, "; "))
}

// toldDeath checks a request, and reports everything that is wrong at once.
func toldDeath(req *fencingv1.ConfirmDeadRequest) (ToldDeath, error) {
	d := ToldDeath{
		Node: req.GetNode(), Proof: req.GetProof(), By: req.GetBy(), Reference: req.GetReference(), Reason: req.GetReason(), Time: time.Now(),
	}
	var wrong complaints
	outside := false
	switch d.Proof {
	case fencingv1.Proof_PROOF_POWER, fencingv1.Proof_PROOF_KDUMP:
		outside = true
	case fencingv1.Proof_PROOF_OPERATOR:
	default:
		wrong.add("proof must be PROOF_OPERATOR, PROOF_POWER or PROOF_KDUMP: the agents find all other proofs themselves")
	}
	wrong.text("node", d.Node, maxNode, true)
	wrong.text("by", d.By, maxBy, true)
	wrong.text("reference", d.Reference, maxReference, outside)
	wrong.text("reason", d.Reason, maxReason, false)
	d.Boot = wrong.boot(req.GetBootNonce())
	if t := req.GetTime(); t != nil {
		if d.Time = t.AsTime(); t.CheckValid() != nil {
			wrong.add("time is not a valid time")
		}
	}
	return d, wrong.err()
}

// printable removes everything from a text that could control a terminal, and cuts it to a length.
func printable(s string, limit int) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
	return clean[:min(len(clean), limit)]
}

func proofName(p fencingv1.Proof) string {
	return strings.ToLower(strings.TrimPrefix(p.String(), "PROOF_"))
}
