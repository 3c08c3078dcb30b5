package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	leaseTerm   = 120 * sec
	leaseExpire = 165 * sec
	leaseLog    = 9
)

// leaseRig is a core of four nodes, n0000 with n0001 against the other two, with its Lease.
type leaseRig struct {
	*Core
	lease   *leasequorum.Arbiter
	t       *testing.T
	now     boottime.Instant
	fx      *Effects
	op      *leasequorum.Op
	version string
}

func newLeaseRig(t *testing.T) *leaseRig {
	t.Helper()
	c := testCore(t, 4, func(c *Config) {
		c.Boot = 0xb0
		c.Budget = Budget{MaxAge: 4 * time.Second, Arbitrate: 10 * time.Second, Feed: time.Second, Margin: time.Second}.WithWatchdog(5 * time.Second)
	})
	a, err := leasequorum.New(leasequorum.Config{Roster: c.cfg.Roster, Evidence: c.Merger(), Boot: 0xb0, Process: 1, Log: leaseLog, Timing: leasequorum.Timing{
		MaxAge: c.cfg.MaxAge, Term: time.Duration(leaseTerm), Expire: time.Duration(leaseExpire), Longest: time.Hour, Stagger: 200 * time.Millisecond,
		Retry: 500 * time.Millisecond, Poll: 500 * time.Millisecond, Refresh: 5 * time.Minute,
	}}, sec)
	if err != nil {
		t.Fatal(err)
	}
	c.BreakTiesBy(a)
	r := &leaseRig{Core: c, lease: a, t: t, now: 2 * sec, version: "1"}
	r.together()
	if r.op == nil || r.op.Kind != leasequorum.Read {
		t.Fatalf("the Lease is not looked at: %+v", r.op)
	}
	r.answer(leasequorum.Record{})
	return r
}

func (r *leaseRig) step() {
	r.fx = r.Step(r.now)
	if op := r.lease.Op(); op != nil {
		r.op = op
	}
}

// say lets peers state view as their own view.
func (r *leaseRig) say(view roster.Set, peers ...int) {
	for _, p := range peers {
		r.Merger().Answered(netgossip.Answer{
			Peer: p, SentAt: r.now, Clock: r.now, Relay: netgossip.Relay{Log: leaseLog, Instance: 1, Anchor: r.now},
			Statement: &netgossip.Statement{
				Boot: uint64(0xb0 + p), Token: netgossip.Token{Nonce: uint64(0xb0 + p), Counter: 7}, RosterEpoch: r.cfg.Roster.Epoch,
				RosterDigest: r.cfg.Roster.Digest, Seen: view, View: view, Lost: r.proof.lost, Dues: r.proof.dues,
				Guard: netgossip.Guard{Armed: true, Fences: true, Leases: true, Timeout: 10 * time.Second, Horizon: 40 * time.Second},
			},
		})
	}
}

func (r *leaseRig) together() {
	r.say(roster.FullSet(4), 1, 2, 3)
	r.step()
}

// apart advances the clock while only this node's half is heard.
func (r *leaseRig) apart(d boottime.Instant) {
	for end := r.now + d; r.now < end; {
		r.now += sec / 2
		r.say(roster.SetOf(0, 1), 1)
		r.step()
	}
}

// answer completes the present operation successfully.
func (r *leaseRig) answer(rec leasequorum.Record) {
	r.lease.Complete(&leasequorum.Completion{
		ID: r.op.ID, Started: r.now, Ended: r.now, Outcome: leasequorum.Done, Record: rec, Version: leasequorum.Version{UID: "u", Resource: r.version},
	})
	r.op = nil
}

// won brings the rig into a tie that its half has won.
func (r *leaseRig) won() {
	r.t.Helper()
	r.now += leaseExpire
	r.together()
	r.apart(6 * sec)
	if r.op == nil || r.op.Kind != leasequorum.Write || len(r.op.Record.Grant.Holders) != 2 {
		r.t.Fatalf("no grant is put forward: %+v; %v %s", r.op, r.fx.Decision, r.Split().Why)
	}
	if d := r.fx.Decision; d.Action != Hold || d.Reason != ReasonSplitPending {
		r.t.Fatalf("while it is written: %+v", d)
	}
	r.version = "2"
	r.answer(r.op.Record)
	r.step()
	if d := r.fx.Decision; d.Action != Feed || d.Reason != ReasonSplitWon || d.Until <= r.now {
		r.t.Fatalf("granted: %+v", d)
	}
}

// renew keeps the grant in force.
func (r *leaseRig) renew(d boottime.Instant) {
	for end := r.now + d; r.now < end; {
		r.apart(sec)
		if r.op != nil {
			r.version += "+"
			r.answer(r.op.Record)
		}
	}
}

func TestLeaseDecidesATie(t *testing.T) {
	r := newLeaseRig(t)
	if r.fx.Statement.Token.IsZero() && r.now > 3*sec {
		t.Error("no token is told")
	}
	r.won()
	if tok := r.fx.Statement.Token; tok.IsZero() || tok.Nonce != 0xb0 {
		t.Errorf("token %v", tok)
	}
	if r.fx.Relay.Log != leaseLog || r.fx.Relay.Instance <= 1 {
		t.Errorf("the grant is not told: %+v", r.fx.Relay)
	}
	r.renew(leaseTerm) // beyond the budget and the first write's term
	if d := r.fx.Decision; d.Action != Feed || d.Reason != ReasonSplitWon {
		t.Errorf("after the term: %+v, %s", d, r.Split().Why)
	}
}

// Guard: K7. The Lease has for each holder the guard from its statements, even if its watchdog is not armed yet, and a
// longer guard ends the grant.
func TestLeaseStatesTheGuards(t *testing.T) {
	r := newLeaseRig(t)
	if h := r.fx.Statement.Guard.Horizon; h != r.cfg.Budget.Horizon() || h == 0 {
		t.Errorf("before the driver has told its timeout: %v", h)
	}
	r.SetGuard(true, 10*time.Second)
	r.now += leaseExpire
	r.together()
	r.apart(6 * sec)
	for i, h := range r.op.Record.Grant.Holders {
		if want := [...]time.Duration{r.fx.Statement.Guard.Horizon, 40 * time.Second}[i]; h.Horizon != want || want == 0 {
			t.Errorf("%s: horizon %v, want %v", h.Node, h.Horizon, want)
		}
	}
	r.version = "2"
	r.answer(r.op.Record)
	r.step()
	token := r.fx.Statement.Token
	r.SetGuard(true, 20*time.Second)
	r.step()
	if st := r.fx.Statement; st.Token == token || r.fx.Decision.Reason == ReasonSplitWon {
		t.Errorf("with a longer guard: token %v, %+v", st.Token, r.fx.Decision)
	}
	r.SetGuard(true, 0)
	r.step()
	if h := r.fx.Statement.Guard.Horizon; h != 0 {
		t.Errorf("with a countdown of unknown length: %v", h)
	}
}

// The API server's behaviour only affects ties.
func TestLeaseWithoutAnswer(t *testing.T) {
	r := newLeaseRig(t)
	r.now += 30 * 60 * sec
	r.together()
	if d := r.fx.Decision; d.Reason != ReasonNetworkQuorum || r.op == nil {
		t.Fatalf("with a majority: %+v, op %+v", d, r.op)
	}
	r.apart(20 * sec) // the read never ends
	if d := r.fx.Decision; d.Action != Starve || d.Reason != ReasonSplitUndecided {
		t.Errorf("in a tie: %+v", d)
	}
}

// Guard: K3. Another half's grant ends this one at once.
func TestLeaseNamesOthers(t *testing.T) {
	r := newLeaseRig(t)
	r.now += leaseExpire
	r.together()
	r.apart(6 * sec)
	r.lease.Complete(&leasequorum.Completion{ID: r.op.ID, Started: r.now, Ended: r.now, Outcome: leasequorum.Conflict})
	r.step()
	if r.op.Kind != leasequorum.Read {
		t.Fatalf("after a conflict: %+v", r.op)
	}
	r.version = "2"
	r.answer(leasequorum.Record{Instance: 1, Tag: leasequorum.Tag{Boot: 5}, Grant: leasequorum.Grant{Roster: r.cfg.Roster.Ref(), Holders: []leasequorum.Holder{
		{Node: "n0002", Token: netgossip.Token{Nonce: 0xb2, Counter: 8}}, {Node: "n0003", Token: netgossip.Token{Nonce: 0xb3, Counter: 8}},
	}}})
	r.step()
	if d := r.fx.Decision; d.Action != Starve || d.Reason != ReasonSplitLost {
		t.Errorf("%+v, %s", d, r.Split().Why)
	}
}

// Guard: the time for a proof of death in a tie begins when the grant is known.
func TestLeaseProvesDeaths(t *testing.T) {
	r := newLeaseRig(t)
	r.SetGuard(true, 10*time.Second)
	r.won()
	learnt := r.now
	for r.now < learnt+60*sec && r.fx.Fenced.IsEmpty() {
		r.renew(sec)
	}
	if want := learnt + 40*sec; r.fx.Fenced != roster.SetOf(2, 3) || r.now < want || r.now > want+2*sec {
		t.Errorf("fenced %v, %v after the grant was learnt; want both after %v", r.cfg.Roster.Names(r.fx.Fenced), r.now.Sub(learnt), want.Sub(learnt))
	}
}

// Guard: a grant that may have lapsed between two steps does not count as continuous.
func TestLeaseProofNeedsOneGrant(t *testing.T) {
	r := newLeaseRig(t)
	r.SetGuard(true, 10*time.Second)
	r.won()
	r.renew(45 * sec)
	since := r.proof.grantSince
	if since == 0 || r.now < since+40*sec {
		t.Fatalf("granted since %v", since)
	}
	r.now = r.fx.Decision.Until // a stall, during which the other member renews the grant
	r.say(roster.SetOf(0, 1), 1)
	if r.op != nil {
		r.answer(r.op.Record)
	}
	rel := r.fx.Relay
	r.Merger().Answered(netgossip.Answer{Peer: 1, SentAt: r.now, Relay: netgossip.Relay{Log: rel.Log, Instance: rel.Instance, Anchor: r.now}, Statement: func() *netgossip.Statement {
		st, _ := r.Merger().Statement(1)
		return st
	}()})
	r.step()
	if d := r.fx.Decision; d.Reason != ReasonSplitWon || r.proof.grantSince != r.now {
		t.Errorf("after the stall: %+v, granted since %v, want %v", d, r.proof.grantSince, r.now)
	}
}

// Guard: in a tie a guard is not given up without the knowledge of the half that gets the next grant.
func TestLeaseHoldsTheGuardInATie(t *testing.T) {
	r := newLeaseRig(t)
	r.SetGuard(true, 10*time.Second)
	r.won()
	r.SetDisarm("file", "a test")
	r.renew(30 * sec)
	if d := r.fx.Decision; r.fx.Disarm || r.Released() || d.Action != Feed || d.Reason != ReasonMaintenance {
		t.Errorf("in a tie: %+v, released %v", d, r.Released())
	}
	r.SetDisarm("file", "")
	r.Stop()
	r.renew(30 * sec)
	if d := r.fx.Decision; r.Released() || d.Action != Feed || d.Reason != ReasonStopping {
		t.Errorf("stopping in a tie: %+v, released %v, %s", d, r.Released(), r.Split().Why)
	}
	for range 4 {
		r.now += sec
		r.say(roster.FullSet(4), 1, 2, 3)
		r.step()
	}
	if !r.Released() {
		t.Error("not released when a majority knows")
	}
}
