package agent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// heldRegister accepts one operation and never ends it.
type heldRegister struct{ taken []leasequorum.Op }

func (*heldRegister) Run(context.Context) {}
func (*heldRegister) Log() uint64         { return 1 }
func (r *heldRegister) Submit(op leasequorum.Op) bool {
	if len(r.taken) > 0 {
		return false
	}
	r.taken = append(r.taken, op)
	return true
}

// Guard: each operation ends exactly once. Otherwise the arbiter would never ask for another one.
func TestOperationsOnTheLeaseEndOnce(t *testing.T) {
	r := &heldRegister{}
	a := &Agent{box: newMailbox(1, numbered(2)), kube: kube{lease: &kubeLease{register: r}}}
	ends := func() []leasequorum.Completion {
		b := newBatch(1, 2)
		a.box.take(&b)
		return b.leases
	}
	a.submitLease(5, nil)
	a.submitLease(5, &leasequorum.Op{ID: 1, Kind: leasequorum.Read})
	if got := ends(); len(got) != 0 || len(r.taken) != 1 {
		t.Fatalf("taken %v, ended %v", r.taken, got)
	}
	a.submitLease(7, &leasequorum.Op{ID: 2, Kind: leasequorum.Read})
	got := ends()
	if len(got) != 1 || got[0].ID != 2 || got[0].Outcome != leasequorum.Unknown || !errors.Is(got[0].Err, errBusy) || got[0].Started != 7 || got[0].Ended != 7 {
		t.Errorf("ended %+v", got)
	}
}

// The log records when the Lease stops answering and when it answers again, but not each failure.
func TestTroubleWithTheLeaseIsLoggedOnce(t *testing.T) {
	var out strings.Builder
	roster := numbered(2)
	arbiter, err := leasequorum.New(leasequorum.Config{Roster: roster, Evidence: nobody{}, Boot: 1, Log: 1, Timing: leasequorum.Timing{Term: time.Minute, Expire: 2 * time.Minute, Longest: time.Hour}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{kube: kube{lease: &kubeLease{arbiter: arbiter}}, log: slog.New(slog.NewTextHandler(&out, nil))}
	lost := leasequorum.Completion{Outcome: leasequorum.Unknown, Err: errors.New("no route to host")}
	a.leaseCompleted([]leasequorum.Completion{lost, lost, {Outcome: leasequorum.Absent}, {Outcome: leasequorum.Done}})
	if !a.kube.lease.answers {
		t.Error("not usable after an answer")
	}
	a.leaseCompleted([]leasequorum.Completion{lost})
	if a.kube.lease.answers {
		t.Error("usable without an answer")
	}
	if n := strings.Count(out.String(), "\n"); n != 3 || strings.Count(out.String(), "no route to host") != 2 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}

type nobody struct{}

func (nobody) Statement(int) (*netgossip.Statement, boottime.Instant) { return nil, 0 }
func (nobody) Relay(int) netgossip.Relay                              { return netgossip.Relay{} }
