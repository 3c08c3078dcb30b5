package picture

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

// Status is the facts in the API's form for a client that asks at now, while the feeder may feed until then.
func (f *Facts) Status(now, until boottime.Instant) *fencingv1.Status {
	c := f.Config
	st := &fencingv1.Status{
		Time: timestamppb.New(f.Wall),
		Self: &fencingv1.NodeIdentity{
			Name: c.NodeName, Group: c.NodeGroup, Cluster: c.Cluster, Version: f.Self.Version,
			BootNonce: hex64(f.Self.Boot), Uptime: durationpb.New(f.Now.Sub(f.Self.Started)),
		},
		Verdict:    f.verdict(),
		Networks:   f.networks(),
		Nodes:      f.nodes(),
		Luns:       f.luns(),
		LunLease:   f.grant(),
		Watchdog:   f.watchdog(),
		TimeBudget: f.budget(),
		Roster:     f.roster(),
		Api:        &fencingv1.ApiStatus{Configured: f.API.Configured, Reachable: f.API.Reachable, Age: f.age(f.API.At)},
		Terms: &fencingv1.TermsStatus{
			Own: f.Terms.Own, Agreed: f.Terms.Agreed, Missing: f.Roster.Names(f.Terms.Missing), Others: f.Roster.Names(f.Terms.Others),
		},
	}
	for _, m := range f.Missing {
		st.Missing = append(st.Missing, &fencingv1.MissingPart{Part: m.Part, Problem: m.Problem, Since: timestamppb.New(m.Since)})
	}
	judge(st, now, until)
	return st
}

func hex64(v uint64) string { return fmt.Sprintf("%016x", v) }

// age is the time since at, or nil if at never was.
func (f *Facts) age(at boottime.Instant) *durationpb.Duration {
	if at <= 0 {
		return nil
	}
	return durationpb.New(max(0, f.Now.Sub(at)))
}

// wall is the wall-clock time of an instant, for people.
func (f *Facts) wall(at boottime.Instant) *timestamppb.Timestamp {
	return timestamppb.New(f.Wall.Add(-f.Now.Sub(at)))
}

func (f *Facts) roster() *fencingv1.RosterStatus {
	l := &f.Lists
	out := &fencingv1.RosterStatus{
		Epoch: l.Base.Epoch, Digest: hex64(l.Base.Digest), Size: uint32(f.Verdict.Tally.Expected),
		Quorum: uint32(f.Verdict.Tally.Quorum), Source: string(f.Config.Members.Source), NewestEpoch: l.Newest,
	}
	if l.Changing {
		out.Change, out.WaitingFor = l.Standing, f.Roster.Names(l.Waiting)
	}
	return out
}

func (f *Facts) luns() []*fencingv1.LunStatus {
	var all []*fencingv1.LunStatus
	for i := range f.Devices {
		d := &f.Devices[i]
		s := &fencingv1.LunStatus{Path: d.Path, Error: d.Trouble, Healthy: d.Trouble == ""}
		all = append(all, s)
		if f.Slot == nil {
			continue
		}
		s.Claimed, s.Sequence, s.ForeignWriter = f.Slot.Claimed, f.Slot.Sequence, f.Slot.Rival
		if f.Slot.Number >= 0 {
			slot := uint32(f.Slot.Number)
			s.Slot = &slot
		}
		s.LastWriteAge, s.LastReadAge = ago(f.Slot.LastWrite), ago(f.Slot.LastRead)
		if d.InFlight > 0 {
			s.InFlightAge = durationpb.New(d.InFlight)
		}
		s.WriteLatency, s.ReadLatency = durationpb.New(d.Write), durationpb.New(d.Read)
		s.Strangers = f.Strangers
	}
	return all
}

// ago converts a time that is negative if there is none.
func ago(d time.Duration) *durationpb.Duration {
	if d < 0 {
		return nil
	}
	return durationpb.New(d)
}

// grant shows the decision of any tie-breaker, in the field that was first added for the LUN.
func (f *Facts) grant() *fencingv1.LunLease {
	g := f.Grant
	if g == nil {
		return nil
	}
	l := &fencingv1.LunLease{Instance: g.Instance, Holders: g.Holders, Held: g.Held, Pending: g.Pending}
	if g.Held {
		l.GrantedFor = durationpb.New(g.For)
	}
	return l
}

func (f *Facts) watchdog() *fencingv1.WatchdogStatus {
	w := &f.Watchdog
	s := &fencingv1.WatchdogStatus{
		Driver: string(f.Config.Watchdog.Driver), State: publish.WatchdogStateOf(w.Status.String()), Armed: w.Armed,
		Identity: w.Info.Identity, Timeout: durationpb.New(w.Info.Timeout), Nowayout: w.Info.NoWayOut,
		LastFeedAge: f.age(w.LastFeed), Slack: durationpb.New(w.Slack), Feeds: w.Feeds,
		DisarmReason: w.Reason, LastBootReset: w.Info.BootFencing, SentenceBar: publish.SentenceBarOf(f.Barred.String()),
	}
	if f.Config.Watchdog.Driver != config.DriverNone {
		s.Device = f.Device
	}
	if w.Info.Pretimeout > 0 {
		s.Pretimeout = durationpb.New(w.Info.Pretimeout)
	}
	if w.Info.Measured.Fired && w.Info.Timeout > 0 {
		s.FiresWithin = durationpb.New(w.Info.Latest())
	}
	if w.Err != nil {
		s.Error = w.Err.Error()
	}
	return s
}

func (f *Facts) budget() *fencingv1.TimeBudget {
	b := &f.Budget
	out := &fencingv1.TimeBudget{
		DMax: durationpb.New(b.MaxAge), Arbitration: durationpb.New(b.Arbitrate), Grant: durationpb.New(b.Grant),
		FeedInterval: durationpb.New(b.Feed), WatchdogTimeout: durationpb.New(b.Watchdog), Margin: durationpb.New(b.Margin),
		HorizonMajority: durationpb.New(b.Majority()), HorizonTie: durationpb.New(b.Tie()), Release: durationpb.New(b.Release),
	}
	if b.Sampling > 0 {
		out.Sampling = durationpb.New(b.Sampling)
	}
	if b.Voices > 0 {
		out.LunEvidence = durationpb.New(b.Voices)
	}
	return out
}
