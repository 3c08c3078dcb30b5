package netgossip

import (
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"reflect"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestProfilesKeepTheRules(t *testing.T) {
	for _, profile := range Profiles() {
		for n := 1; n <= roster.MaxNodes; n++ {
			p := profile.Params(n)
			for _, q := range p.List() {
				if q.Number() <= 0 {
					t.Fatalf("%s, %d members: %s is %v", profile, n, q.Name, q.Value())
				}
			}
			switch {
			case 10*p.ProbeTimeout > 4*p.ProbeInterval:
				t.Errorf("%s, %d members: nacks come late: probe %v/%v", profile, n, p.ProbeInterval, p.ProbeTimeout)
			case n > 3 && p.SuspicionMult < 3:
				t.Errorf("%s, %d members: nobody confirms a suspicion", profile, n)
			case p.EvidenceMaxAge < 3*p.EvidenceInterval || p.EvidenceTimeout >= p.EvidenceInterval:
				t.Errorf("%s, %d members: evidence %v/%v/%v", profile, n, p.EvidenceInterval, p.EvidenceTimeout, p.EvidenceMaxAge)
			case p.Transmissions(n) < 12 || p.Transmissions(n) > 24:
				t.Errorf("%s, %d members: a piece of news is sent %d times", profile, n, p.Transmissions(n))
			case n > 1 && 2*p.Spread(n) >= p.SuspicionMin(n):
				t.Errorf("%s, %d members: a suspicion of %v ends before its refutation spreads", profile, n, p.SuspicionMin(n))
			case p.EvidenceMaxAge != profile.Params(3).EvidenceMaxAge:
				t.Errorf("%s: members whose rosters differ would judge by different ages", profile)
			}
			if t.Failed() {
				return
			}
		}
	}
	if got := Profile("nonsense").Params(7); got != Tune(7) {
		t.Errorf("an unknown profile is %+v", got)
	}
}

// The scaled profiles are auto at another pace: in their own unit of time, all parameters of detection are equal.
func TestScaledProfiles(t *testing.T) {
	for profile, pace := range map[Profile]float64{ProfileFast: 0.5, ProfileCalm: 2} {
		auto, p := Tune(50), profile.Params(50)
		if got, want := p.SuspicionMin(50), time.Duration(pace*float64(auto.SuspicionMin(50))); got != want {
			t.Errorf("%s: suspicion of %v, want %v", profile, got, want)
		}
		if got, want := p.EvidenceMaxAge, time.Duration(pace*float64(auto.EvidenceMaxAge)); got != want {
			t.Errorf("%s: D_max %v, want %v", profile, got, want)
		}
		if got, want := p.TypicalDetection(50), time.Duration(pace*float64(auto.TypicalDetection(50))); (got - want).Abs() > ms {
			t.Errorf("%s: detection %v, want %v", profile, got, want)
		}
		if p.TCPTimeout != auto.TCPTimeout || p.PushPullInterval != auto.PushPullInterval || p.RetransmitMult != auto.RetransmitMult {
			t.Errorf("%s changes more than its pace: %+v", profile, p)
		}
	}
}

// The ADR's table, row by row, with the suspicion timeouts that follow. The last two exceed the table's column, 18 s
// and 25 s, because of the minimum multiplier.
func TestADRTable(t *testing.T) {
	for _, c := range []struct {
		n                          int
		gossip, probe, timeout     time.Duration
		mult                       int
		suspicion, atLeast, atMost time.Duration
	}{
		{3, 200 * ms, 500 * ms, 200 * ms, 4, 2 * time.Second, time.Second, 2 * time.Second},
		{10, 250 * ms, 750 * ms, 300 * ms, 4, 3 * time.Second, 2 * time.Second, 3 * time.Second},
		{50, 400 * ms, time.Second, 400 * ms, 3, 5094 * ms, 4 * time.Second, 6 * time.Second},
		{100, 500 * ms, 1500 * ms, 500 * ms, 3, 9 * time.Second, 6 * time.Second, 10 * time.Second},
		{300, 700 * ms, 2 * time.Second, 500 * ms, 3, 14862 * ms, 10 * time.Second, 15 * time.Second},
		{500, time.Second, 2500 * ms, 500 * ms, 3, 20235 * ms, 12 * time.Second, 21 * time.Second},
		{1000, 1500 * ms, 3 * time.Second, 500 * ms, 3, 27 * time.Second, 15 * time.Second, 27 * time.Second},
	} {
		p := ProfileADR.Params(c.n)
		if p.GossipInterval != c.gossip || p.ProbeInterval != c.probe || p.ProbeTimeout != c.timeout || p.SuspicionMult != c.mult {
			t.Errorf("%d members: gossip %v, probe %v/%v, suspicion mult %d", c.n, p.GossipInterval, p.ProbeInterval, p.ProbeTimeout, p.SuspicionMult)
		}
		if got := p.SuspicionMin(c.n); got != c.suspicion || got < c.atLeast || got > c.atMost {
			t.Errorf("%d members: suspicion %v, want %v within %v..%v", c.n, got, c.suspicion, c.atLeast, c.atMost)
		}
	}
}

func TestADRInterpolation(t *testing.T) {
	for _, c := range []struct {
		n             int
		gossip, probe time.Duration
	}{
		{1, 200 * ms, 500 * ms}, {2, 200 * ms, 500 * ms}, // below the table
		{4, 210 * ms, 560 * ms}, {22, 320 * ms, 870 * ms}, {70, 450 * ms, 1240 * ms}, // halfway between 10 and 50, and 50 and 100
		{173, 600 * ms, 1750 * ms}, {387, 850 * ms, 2250 * ms}, {707, 1250 * ms, 2750 * ms},
		{roster.MaxNodes, 1500 * ms, 3 * time.Second}, // above it
	} {
		if gossip, probe := ADRIntervals(c.n); gossip != c.gossip || probe != c.probe {
			t.Errorf("%d members: %v and %v, want %v and %v", c.n, gossip, probe, c.gossip, c.probe)
		}
	}
	was, before := ADRIntervals(1)
	for n := 2; n <= roster.MaxNodes; n++ {
		gossip, probe := ADRIntervals(n)
		if gossip < was || probe < before {
			t.Errorf("%d members: the intervals shrink to %v and %v", n, gossip, probe)
		}
		was, before = gossip, probe
	}
}

// The values are those of memberlist's formulas for its own defaults.
func TestBounds(t *testing.T) {
	lan := Params{
		GossipInterval: 200 * ms, GossipNodes: 3, ProbeInterval: time.Second, ProbeTimeout: 500 * ms,
		RetransmitMult: 4, SuspicionMult: 4, SuspicionMaxTimeoutMult: 6, AwarenessMaxMultiplier: 8,
	}
	for _, c := range []struct {
		n                            int
		suspicion, longest, spread   time.Duration
		confirmations, transmissions int
		typical, worst               time.Duration
	}{
		{1, 4 * time.Second, 4 * time.Second, 200 * ms, 0, 4, 0, 0},
		{3, 4 * time.Second, 4 * time.Second, 200 * ms, 0, 4, 5867 * ms, 36200 * ms},
		{4, 4 * time.Second, 24 * time.Second, 200 * ms, 2, 4, 5950 * ms, 72200 * ms},
		{10, 4 * time.Second, 24 * time.Second, 400 * ms, 2, 8, 6300 * ms, 168400 * ms},
		{100, 8 * time.Second, 48 * time.Second, 800 * ms, 2, 12, 10790 * ms, 224800 * ms},
		{1000, 12 * time.Second, 72 * time.Second, time.Second, 2, 16, 14999 * ms, 249 * time.Second},
	} {
		if got := lan.SuspicionMin(c.n); got != c.suspicion {
			t.Errorf("%d members: least suspicion %v, want %v", c.n, got, c.suspicion)
		}
		if got := lan.SuspicionMax(c.n); got != c.longest {
			t.Errorf("%d members: longest suspicion %v, want %v", c.n, got, c.longest)
		}
		if got := lan.Confirmations(c.n); got != c.confirmations {
			t.Errorf("%d members: %d confirmations, want %d", c.n, got, c.confirmations)
		}
		if got := lan.Transmissions(c.n); got != c.transmissions {
			t.Errorf("%d members: %d transmissions, want %d", c.n, got, c.transmissions)
		}
		if got := lan.Spread(c.n); got != c.spread {
			t.Errorf("%d members: spread %v, want %v", c.n, got, c.spread)
		}
		if got := lan.TypicalDetection(c.n); got != c.typical {
			t.Errorf("%d members: typically %v, want %v", c.n, got, c.typical)
		}
		if got := lan.WorstDetection(c.n); got != c.worst {
			t.Errorf("%d members: at worst %v, want %v", c.n, got, c.worst)
		}
	}
	if got := (Params{SuspicionMult: 2}).Confirmations(100); got != 0 {
		t.Errorf("%d confirmations with mult 2", got)
	}
}

// A parameter that is missing in the list is missing in status, metrics and overrides.
func TestListHasEveryParameter(t *testing.T) {
	var p Params
	v := reflect.ValueOf(&p).Elem()
	list := p.List()
	if len(list) != v.NumField() {
		t.Fatalf("%d of %d parameters listed", len(list), v.NumField())
	}
	for i, q := range list {
		field := v.Type().Field(i)
		name := strings.Replace(field.Name, "TCP", "Tcp", 1)
		if want := strings.ToLower(name[:1]) + name[1:]; q.Name != want {
			t.Errorf("parameter %d is called %s, want %s", i, q.Name, want)
		}
		v.Field(i).SetInt(int64(i+1) * int64(time.Second))
		switch {
		case q.Duration != nil && q.Count == nil:
			if *q.Duration != time.Duration(i+1)*time.Second || q.Number() != float64(i+1) || q.Value() != *q.Duration {
				t.Errorf("%s points elsewhere: %v", q.Name, *q.Duration)
			}
		case q.Count != nil && q.Duration == nil:
			if *q.Count != (i+1)*int(time.Second) || q.Number() != float64(*q.Count) || q.Value() != *q.Count {
				t.Errorf("%s points elsewhere: %v", q.Name, *q.Count)
			}
		default:
			t.Errorf("%s is neither a duration nor a count", q.Name)
		}
	}
}
