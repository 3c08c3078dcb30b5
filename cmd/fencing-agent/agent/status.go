package agent

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/words"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// status is the picture the loop took last, as a copy the caller may keep. It never
// waits for the loop: a picture that is old says that the loop stands still.
func (a *Agent) status() *fencingv1.Status {
	p := a.picture.latest.Load()
	if p == nil {
		return nil
	}
	st := proto.Clone(p).(*fencingv1.Status)
	a.judge(st)
	return st
}

// judge looks at the clock before a picture is given away: a verdict lasts until its deadline, however long ago
// the picture was taken, and whatever comes next is not known yet.
func (a *Agent) judge(st *fencingv1.Status) {
	v := st.GetVerdict()
	if v.GetPermission() != fencingv1.Permission_PERMISSION_FEED && v.GetPermission() != fencingv1.Permission_PERMISSION_HOLD {
		return
	}
	now, until := a.clock(), a.guard.until()
	if until > now {
		v.ValidFor = durationpb.New(until.Sub(now))
		return
	}
	v.Permission, v.Quorum, v.ValidFor, v.Expired = fencingv1.Permission_PERMISSION_STARVE, false, nil, true
	v.Text = words.Reason(v)
	for _, n := range st.GetNodes() {
		if n.GetName() == st.GetSelf().GetName() {
			n.Feeding, n.Available = false, false
		}
	}
}

// picture is the status as the loop took it last.
type picture struct {
	latest atomic.Pointer[fencingv1.Status] // any goroutine may read it
	at     boottime.Instant
}

// takePicture describes everything at now. It runs on the loop.
func (a *Agent) takePicture(now boottime.Instant) *fencingv1.Status {
	return &fencingv1.Status{
		Time: timestamppb.Now(),
		Self: &fencingv1.NodeIdentity{
			Name: a.cfg.NodeName, Group: a.cfg.NodeGroup, Cluster: a.cfg.Cluster, Version: a.opts.Version,
			BootNonce: hex64(a.self.boot), Uptime: durationpb.New(now.Sub(a.self.started)),
		},
		Verdict:    a.verdictStatus(now),
		Networks:   a.networkStatus(now),
		Nodes:      a.nodeStatus(now),
		Luns:       a.lunStatus(now),
		LunLease:   a.leaseStatus(now),
		Watchdog:   a.watchdogStatus(now),
		TimeBudget: a.budgetStatus(),
		Roster:     a.rosterStatus(),
		Api:        a.apiStatus(now),
		Terms:      a.termsStatus(),
	}
}

func (a *Agent) rosterStatus() *fencingv1.RosterStatus {
	s := a.core.Succession()
	out := &fencingv1.RosterStatus{
		Epoch: s.Base().Epoch, Digest: hex64(s.Base().Digest), Size: uint32(a.core.Size()),
		Quorum: uint32(a.core.Quorum()), Source: string(a.cfg.Members.Source), NewestEpoch: s.Top().Epoch,
	}
	if o := s.Offer(); o != nil {
		out.NewestEpoch = o.Epoch
	}
	if next := s.Next(); next != nil {
		out.NewestEpoch = next.Epoch
	}
	if !s.Settled() || s.Next() != nil {
		out.Change, out.WaitingFor = standingText(s), a.roster.Names(a.core.WaitingFor())
	}
	return out
}

func hex64(v uint64) string { return fmt.Sprintf("%016x", v) }

// age is the time since at, or nil if at never was.
func age(now, at boottime.Instant) *durationpb.Duration {
	if at <= 0 {
		return nil
	}
	return durationpb.New(max(0, now.Sub(at)))
}

// wall is the wall-clock time of an instant, for people.
func wall(now, at boottime.Instant) *timestamppb.Timestamp {
	return timestamppb.New(time.Now().Add(-now.Sub(at)))
}

func (a *Agent) networkStatus(now boottime.Instant) []*fencingv1.NetworkStatus {
	m := a.core.Merger()
	states := a.gossip.States()
	out := make([]*fencingv1.NetworkStatus, 0, len(states))
	for i, n := range states {
		s := &fencingv1.NetworkStatus{
			Name: n.Name, Address: n.Local.Address.String(), Interface: n.Local.Interface, Up: m.NetworkUp(i), HealthScore: uint32(n.Health),
			Tuning: tuningStatus(a.cfg, n.Tuning, n.KeyIDs),
		}
		reachable := 0
		for p := range a.roster.Members {
			if p == a.roster.Self {
				continue
			}
			alive, proven, ok := m.LinkState(i, p, now)
			s.Members = append(s.Members, &fencingv1.NetworkMember{
				Name: a.roster.Name(p), Address: a.roster.Members[p].Addresses[n.Name],
				Alive: alive, EvidenceAge: age(now, proven), Reachable: ok, StateAge: age(now, a.links.edges.LinkSince(i, p)),
			})
			if ok {
				reachable++
			}
		}
		a.metrics.network.WithLabelValues(n.Name).Set(float64(reachable))
		out = append(out, s)
	}
	return out
}

func (a *Agent) nodeStatus(now boottime.Instant) []*fencingv1.NodeStatus {
	view, available := a.core.View(), a.core.Available()
	out := make([]*fencingv1.NodeStatus, 0, a.roster.Size())
	for p := range a.roster.Members {
		s := &fencingv1.NodeStatus{
			Name: a.roster.Name(p), Addresses: a.roster.Members[p].Addresses,
			Reachable: view.Seen.Has(p), Counted: view.Counted.Has(p), Available: available.Has(p),
		}
		s.StateAge = age(now, a.links.edges.Since(p))
		if !a.published.left[p].IsZero() {
			s.PrevDisconnect = timestamppb.New(a.published.left[p])
		}
		st, anchor := a.core.Merger().Statement(p)
		if p == a.roster.Self {
			st, anchor = a.gossip.Said(), now
			s.Reachable, s.SeesThisNode, s.SameRoster = true, true, true
		} else {
			s.HeardAge = age(now, a.core.Merger().Sighted(p))
		}
		s.EvidenceAge = age(now, anchor)
		s.State = stateOf(s, st, anchor)
		a.addDeath(now, p, s)
		if a.core.Restarting().Has(p) {
			s.State = fencingv1.NodeState_NODE_STATE_RESTARTING
		}
		if why := a.core.LeftReason(p); why != 0 {
			s.LeftReason = why.String()
		}
		a.describe(s, st)
		out = append(out, s)
	}
	return out
}

func stateOf(s *fencingv1.NodeStatus, st *netgossip.Statement, anchor boottime.Instant) fencingv1.NodeState {
	switch {
	case s.Reachable:
		return fencingv1.NodeState_NODE_STATE_REACHABLE
	case anchor <= 0:
		return fencingv1.NodeState_NODE_STATE_UNKNOWN
	case st != nil && st.Stopping:
		return fencingv1.NodeState_NODE_STATE_STOPPED
	default:
		return fencingv1.NodeState_NODE_STATE_UNREACHABLE
	}
}

// describe adds what a node said of itself.
func (a *Agent) describe(s *fencingv1.NodeStatus, st *netgossip.Statement) {
	if st == nil {
		return
	}
	if s.Name != a.cfg.NodeName {
		s.SeesThisNode = st.Seen.Has(a.roster.Self)
		s.SameRoster = st.RosterDigest == a.roster.Digest && st.RosterEpoch == a.roster.Epoch
	}
	s.Token = &fencingv1.Token{BootNonce: hex64(st.Token.Nonce), Counter: st.Token.Counter}
	s.Feeding, s.Stopping = st.Feeding, st.Stopping
	s.WatchdogArmed, s.WatchdogTimeout = st.Guard.Armed, durationpb.New(st.Guard.Timeout)
	if st.Guard.Horizon > 0 && st.Guard.Fences {
		s.Horizon = durationpb.New(st.Guard.Horizon)
	}
	s.LunHealthy, s.ApiReachable, s.Version = st.LUNHealthy, st.APIReachable, st.Version
	if st.Terms.Stated() {
		s.Terms = st.Terms.String()
	}
}

// deviceTrouble says what keeps one device of the LUN from counting, or "".
func (a *Agent) deviceTrouble(d int, arb *diskquorum.Arbiter, now boottime.Instant) string {
	if t := a.lun.keepers[d].Trouble(); t != "" {
		return t
	}
	if arb == nil {
		return "not opened yet"
	}
	return arb.DeviceTrouble(d, now)
}

func (a *Agent) lunStatus(now boottime.Instant) []*fencingv1.LunStatus {
	var all []*fencingv1.LunStatus
	arb := a.core.Arbiter()
	for d, k := range a.lun.keepers {
		s := &fencingv1.LunStatus{Path: k.Path, Error: a.deviceTrouble(d, arb, now)}
		all = append(all, s)
		s.Healthy = s.Error == ""
		if real, err := filepath.EvalSymlinks(k.Path); err == nil {
			s.Device = filepath.Base(real)
		}
		if arb == nil {
			continue
		}
		st := arb.Status(now)
		s.Claimed, s.Sequence = st.Claimed, st.Sequence
		if st.Slot >= 0 {
			slot := uint32(st.Slot)
			s.Slot = &slot
		}
		if st.LastWrite >= 0 {
			s.LastWriteAge = durationpb.New(st.LastWrite)
		}
		if st.LastRead >= 0 {
			s.LastReadAge = durationpb.New(st.LastRead)
		}
		if age := arb.InFlight(d, now); age > 0 {
			s.InFlightAge = durationpb.New(age)
		}
		write, read := k.Latency()
		s.WriteLatency, s.ReadLatency = durationpb.New(write), durationpb.New(read)
		s.Strangers = a.lun.strangers.names
		s.ForeignWriter = errors.Is(arb.Failure(), diskquorum.ErrRival)
	}
	return all
}

// leaseStatus shows the decision of any tie-breaker where the first one, the LUN, had its place.
func (a *Agent) leaseStatus(now boottime.Instant) *fencingv1.LunLease {
	g, ok := a.grant(now)
	if !ok {
		return nil
	}
	l := &fencingv1.LunLease{Instance: g.Instance, Holders: g.Holders, Held: g.Held, Pending: g.Pending}
	if g.Held {
		l.GrantedFor = durationpb.New(g.For)
	}
	return l
}

func (a *Agent) watchdogStatus(now boottime.Instant) *fencingv1.WatchdogStatus {
	f := a.guard.feeder.State()
	s := &fencingv1.WatchdogStatus{
		Driver: string(a.cfg.Watchdog.Driver), State: publish.WatchdogStateOf(f.Status.String()), Armed: f.Armed,
		Identity: f.Info.Identity, Timeout: durationpb.New(f.Info.Timeout), Nowayout: f.Info.NoWayOut,
		LastFeedAge: age(now, f.LastFeed), Slack: durationpb.New(f.Slack), Feeds: f.Feeds,
		DisarmReason: f.Reason, LastBootReset: f.Info.BootFencing,
	}
	if a.cfg.Watchdog.Driver == config.DriverDevice {
		s.Device = a.guard.device
	}
	if f.Info.Pretimeout > 0 {
		s.Pretimeout = durationpb.New(f.Info.Pretimeout)
	}
	if f.Err != nil {
		s.Error = f.Err.Error()
	}
	return s
}

// budget is the time budget with the driver's own timeout, once it is known.
func (a *Agent) budget() watchdog.Budget {
	if got := a.guard.feeder.State().Info.Timeout; got > 0 {
		return a.cfg.BudgetFor(got, a.rosters.largest)
	}
	return a.cfg.BudgetFor(a.cfg.Watchdog.Timeout, a.rosters.largest)
}

func (a *Agent) budgetStatus() *fencingv1.TimeBudget {
	b := a.budget()
	out := &fencingv1.TimeBudget{
		DMax: durationpb.New(b.MaxAge), Arbitration: durationpb.New(b.Arbitrate), Grant: durationpb.New(b.Grant),
		FeedInterval: durationpb.New(b.Feed), WatchdogTimeout: durationpb.New(b.Watchdog), Margin: durationpb.New(b.Margin),
		HorizonMajority: durationpb.New(b.Majority()), HorizonTie: durationpb.New(b.Tie()), Release: durationpb.New(b.Release),
	}
	if b.Sampling > 0 {
		out.Sampling = durationpb.New(b.Sampling)
	}
	return out
}

func (a *Agent) apiStatus(now boottime.Instant) *fencingv1.ApiStatus {
	reachable, at := a.core.API()
	return &fencingv1.ApiStatus{Configured: a.prefersAPI(), Reachable: reachable, Age: age(now, at)}
}
