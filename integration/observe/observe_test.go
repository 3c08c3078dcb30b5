package observe

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

const (
	feed   = fencingv1.Permission_PERMISSION_FEED
	hold   = fencingv1.Permission_PERMISSION_HOLD
	starve = fencingv1.Permission_PERMISSION_STARVE

	majority = fencingv1.Reason_REASON_NETWORK_QUORUM
	won      = fencingv1.Reason_REASON_SPLIT_WON
	lost     = fencingv1.Reason_REASON_SPLIT_LOST
	pending  = fencingv1.Reason_REASON_SPLIT_PENDING
)

func observer() *Observer {
	return &Observer{
		source: nobody{}, status: map[string]*fencingv1.Status{}, received: map[string]time.Time{},
		accepted: map[string]bool{}, heard: map[string]uint64{}, changed: make(chan struct{}),
	}
}

type nobody struct{ Source }

func (nobody) Nodes() []string { return nil }

func verdictOf(p fencingv1.Permission, r fencingv1.Reason) *fencingv1.Status {
	return &fencingv1.Status{Verdict: &fencingv1.Verdict{Permission: p, Reason: r}}
}

func TestStatusThatIsNotRepeatedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observer()
		o.noteStatus("n1", verdictOf(feed, majority), nil)
		if _, err := o.Hold(t.Context(), MaxAge-time.Second, Feeding(majority, "n1")); err != nil {
			t.Error(err)
		}
		_, err := o.Await(t.Context(), time.Minute, Feeding(starveReason, "n1"))
		if err == nil || !strings.Contains(err.Error(), "n1 does not answer") {
			t.Errorf("after %v of silence: %v, want no answer", time.Minute, err)
		}
	})
}

const starveReason = fencingv1.Reason_REASON_QUORUM_LOST

func TestAwaitAndHoldSeeEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observer()
		o.noteStatus("n1", verdictOf(feed, majority), nil)
		begin := time.Now()
		time.AfterFunc(3*time.Second, func() { o.noteStatus("n1", verdictOf(starve, lost), nil) })
		time.AfterFunc(5*time.Second, func() { o.noteStatus("n1", verdictOf(feed, majority), nil) })

		if _, err := o.Await(t.Context(), 10*time.Second, Starving("n1")); err != nil || time.Since(begin) != 3*time.Second {
			t.Errorf("starving seen after %v: %v", time.Since(begin), err)
		}
		_, err := o.Hold(t.Context(), 10*time.Second, Starving("n1"))
		if err == nil || time.Since(begin) != 5*time.Second || !strings.Contains(err.Error(), "n1 is at feed/network_quorum") {
			t.Errorf("end of starving seen after %v: %v", time.Since(begin), err)
		}
		v, _ := o.View()
		if _, still := Starved(v, begin, "n1"); still || len(v.Verdicts) != 3 {
			t.Errorf("starved still: %v, changes: %v", still, v.Verdicts)
		}
	})
}

func TestStarved(t *testing.T) {
	begin := time.Now()
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	for name, c := range map[string]struct {
		changes []Change
		want    int // seconds; -1: none
	}{
		"nothing happened":  {nil, -1},
		"another node":      {[]Change{{"n2", starve, lost, at(1)}}, -1},
		"before":            {[]Change{{"n1", starve, lost, at(0)}}, -1},
		"hold still feeds":  {[]Change{{"n1", hold, pending, at(1)}}, -1},
		"starve":            {[]Change{{"n1", hold, pending, at(1)}, {"n1", starve, lost, at(2)}}, 2},
		"first of several":  {[]Change{{"n1", starve, pending, at(1)}, {"n1", starve, lost, at(2)}}, 1},
		"fed again":         {[]Change{{"n1", starve, lost, at(1)}, {"n1", feed, majority, at(2)}}, -1},
		"held again counts": {[]Change{{"n1", starve, lost, at(1)}, {"n1", hold, pending, at(2)}, {"n1", starve, lost, at(3)}}, 3},
	} {
		got, ok := Starved(&View{Verdicts: c.changes}, begin, "n1")
		if ok != (c.want >= 0) || (ok && !got.Equal(at(c.want))) {
			t.Errorf("%s: %v after the beginning, %v; want %d s", name, got.Sub(begin), ok, c.want)
		}
	}
}

func TestOneSideGranted(t *testing.T) {
	begin := time.Now()
	later := begin.Add(time.Second)
	c := OneSideGranted(begin, []string{"n1", "n2"}, []string{"n3", "n4"})
	v := &View{Verdicts: []Change{{"n3", feed, won, begin}, {"n1", feed, won, later}, {"n2", feed, won, later}}}
	if missing := c(v); missing != "" {
		t.Errorf("one half granted: %s", missing)
	}
	v.Verdicts = append(v.Verdicts, Change{"n4", feed, won, later})
	if c(v) == "" {
		t.Error("both halves granted, one after the other: not noticed")
	}
}

func lease(p fencingv1.Permission, r fencingv1.Reason, held bool, holders ...string) *fencingv1.Status {
	s := verdictOf(p, r)
	s.LunLease = &fencingv1.LunLease{Held: held, Holders: holders}
	return s
}

func TestDecided(t *testing.T) {
	winner := lease(feed, won, true, "n1", "n2")
	loser := lease(starve, lost, false, "n1", "n2")
	for name, c := range map[string]struct {
		status map[string]*fencingv1.Status
		want   bool
	}{
		"first half":      {map[string]*fencingv1.Status{"n1": winner, "n2": winner, "n3": loser, "n4": loser}, true},
		"loser holds on":  {map[string]*fencingv1.Status{"n1": winner, "n2": winner, "n3": loser, "n4": lease(hold, pending, false)}, false},
		"loser is silent": {map[string]*fencingv1.Status{"n1": winner, "n2": winner, "n3": loser}, false},
		"half a half":     {map[string]*fencingv1.Status{"n1": winner, "n2": loser, "n3": loser, "n4": loser}, false},
		"both":            {map[string]*fencingv1.Status{"n1": winner, "n2": winner, "n3": winner, "n4": winner}, false},
		"wrong holders":   {map[string]*fencingv1.Status{"n1": lease(feed, won, true, "n1"), "n2": winner, "n3": loser, "n4": loser}, false},
		"by majority":     {map[string]*fencingv1.Status{"n1": lease(feed, majority, true, "n1", "n2"), "n2": winner, "n3": loser, "n4": loser}, false},
	} {
		missing := Decided([]string{"n1", "n2"}, []string{"n3", "n4"})(&View{Status: c.status})
		if (missing == "") != c.want {
			t.Errorf("%s: %q, want decided: %v", name, missing, c.want)
		}
	}
}

func TestRenounced(t *testing.T) {
	status := func(counter uint32) *fencingv1.Status {
		return &fencingv1.Status{Nodes: []*fencingv1.NodeStatus{{Name: "n1", Token: &fencingv1.Token{BootNonce: "ab", Counter: counter}}}}
	}
	view := &View{Status: map[string]*fencingv1.Status{"n1": status(3)}}
	before := Tokens(view, []string{"n1"})
	if Renounced(before)(view) == "" {
		t.Error("same token: renounced")
	}
	view.Status["n1"] = status(4)
	if missing := Renounced(before)(view); missing != "" {
		t.Errorf("new token: %s", missing)
	}
	delete(view.Status, "n1")
	if Renounced(before)(view) == "" {
		t.Error("no answer: renounced")
	}
}

func TestHeard(t *testing.T) {
	at := func(revision uint64) *fencingv1.Status { return &fencingv1.Status{Revision: revision} }
	for name, c := range map[string]struct {
		v    View
		want bool
	}{
		"all have come":      {View{Status: map[string]*fencingv1.Status{"n1": at(3)}, Subscribed: map[string]bool{"n1": true}, Heard: map[string]uint64{"n1": 3}}, true},
		"the status is late": {View{Status: map[string]*fencingv1.Status{"n1": at(2)}, Subscribed: map[string]bool{"n1": true}, Heard: map[string]uint64{"n1": 3}}, true},
		"one is to come":     {View{Status: map[string]*fencingv1.Status{"n1": at(4)}, Subscribed: map[string]bool{"n1": true}, Heard: map[string]uint64{"n1": 3}}, false},
		"no subscriber":      {View{Status: map[string]*fencingv1.Status{"n1": at(0)}}, false},
		"no answer":          {View{Subscribed: map[string]bool{"n1": true}, Heard: map[string]uint64{"n1": 3}}, false},
	} {
		if got := Heard("n1")(&c.v); (got == "") != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
