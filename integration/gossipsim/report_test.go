package gossipsim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

func seconds(values ...float64) (d []time.Duration) {
	for _, v := range values {
		d = append(d, time.Duration(v*float64(time.Second)))
	}
	return d
}

func TestQuantiles(t *testing.T) {
	d := Distribution{Samples: seconds(1, 2, 3, 4), Missing: 1}
	for q, want := range map[float64]time.Duration{0: time.Second, 0.2: time.Second, 0.5: 3 * time.Second, 0.8: 4 * time.Second} {
		if got, ok := d.Quantile(q); !ok || got != want {
			t.Errorf("quantile %v is %v, %v; want %v", q, got, ok, want)
		}
	}
	for _, q := range []float64{0.81, 0.99, 1} {
		if got, ok := d.Quantile(q); ok {
			t.Errorf("quantile %v is %v although one of five is missing", q, got)
		}
	}
	if _, ok := (&Distribution{}).Quantile(0.5); ok {
		t.Error("nothing has a median")
	}
}

func TestMerge(t *testing.T) {
	a := &Report{Config: DefaultConfig(10), Trials: 1, Complete: 10, NodeHours: 1, Measured: time.Second, Left: Distribution{Samples: seconds(1, 3)}, Sent: Traffic{Packets: 10, Bytes: 1000}, Busiest: Traffic{Bytes: 1000}, False: False{Reports: 1}, PeakRSS: 5}
	b := &Report{Config: DefaultConfig(10), Trials: 1, Complete: 9, NodeHours: 1, Measured: 3 * time.Second, Left: Distribution{Samples: seconds(2), Missing: 2}, Sent: Traffic{Packets: 30, Bytes: 3000}, Busiest: Traffic{Bytes: 2000}, False: False{Reports: 2}, PeakRSS: 3}
	a.Merge(b)
	if p50, ok := a.Left.Quantile(0.5); !ok || p50 != 3*time.Second || a.Left.Len() != 5 {
		t.Errorf("merged %+v", a.Left)
	}
	if a.Trials != 2 || a.Complete != 9 || a.NodeHours != 2 || a.False.Reports != 3 || a.PeakRSS != 5 {
		t.Errorf("merged %+v", a)
	}
	if mean, peak := a.Mean(), a.Peak(); mean.Packets != 1 || mean.Bytes != 100 || peak.Bytes != 200 {
		t.Errorf("40 packets of ten nodes in 4 s: mean %+v, peak %+v", mean, peak)
	}
}

func TestJudge(t *testing.T) {
	second := time.Second
	f := judge([]left{
		{at: 100 * second, observer: 1, subject: 5},
		{at: 1 * second, observer: 1, subject: 5},
		{at: 2 * second, observer: 2, subject: 5}, // the same incident
		{at: 3 * second, observer: 3, subject: 6, atSlow: true},
		{at: 3 * second, observer: 2, subject: 7, ofSlow: true},
		{at: 109 * second, observer: 2, subject: 5},
	})
	if want := (False{Reports: 4, AtSlow: 1, OfSlow: 1, Incidents: 3}); f != want {
		t.Errorf("judged %+v, want %+v", f, want)
	}
}

// observed returns an observer whose schedule has the given faults and has just begun.
func observed(t *testing.T, cfg Config, faults ...Fault) *observer {
	t.Helper()
	w, err := newWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.fab.close)
	w.faults = faults
	w.fab.open = true
	all := roster.FullSet(cfg.Nodes)
	for i := range cfg.Nodes {
		w.obs.setUp(i, true)
		w.obs.changed(i, all, all, roster.Set{})
	}
	if got := w.obs.begin(); got != cfg.Nodes {
		t.Fatalf("%d nodes are complete", got)
	}
	return w.obs
}

func TestObserverTellsFalseFromTrue(t *testing.T) {
	without := func(o *observer, node int, peers ...int) {
		v := o.views[node]
		for _, p := range peers {
			v.Remove(p)
		}
		o.changed(node, v, v, roster.Set{})
	}
	synctest.Test(t, func(t *testing.T) {
		o := observed(t, config(5, "auto", "idle"),
			Fault{Kind: Isolate, At: 10 * time.Second, For: 5 * time.Second, Nodes: []int{1}},
			Fault{Kind: Isolate, At: 10 * time.Second, For: 5 * time.Second, Nodes: []int{2}, Networks: []int{0}},
			Fault{Kind: Slow, Nodes: []int{4}})
		<-time.After(5 * time.Second)
		without(o, 0, 1) // before the fault: false
		<-time.After(10 * time.Second)
		without(o, 3, 1) // during the fault: explained
		without(o, 0, 2) // one network of two: false
		<-time.After(time.Hour)
		without(o, 2, 1)       // long after it: false
		without(o, 0, 4)       // a slow node
		without(o, 4, 0, 1, 2) // at a slow node, which also loses its quorum
		if got, want := judge(o.lefts), (False{Reports: 3, AtSlow: 3, OfSlow: 1, Incidents: 5}); got != want {
			t.Errorf("judged %+v, want %+v", got, want)
		}
		// Node 0 has lost 1, 2 and 4, and with them its quorum, without a good reason.
		if o.disturbed != 1 || len(o.lost) != 1 {
			t.Errorf("%d true LEFTs and %d lost quorums, want 1 and 1", o.disturbed, len(o.lost))
		}
		o.setUp(3, false)
		without(o, 3, 0, 1, 2)
		if o.disturbed != 1 || len(o.lefts) != 7 {
			t.Error("an event of a node that does not run was recorded")
		}
	})
}

// If a node sees a change only for a while, that is no detection.
func TestDetectionIsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observed(t, config(4, "auto", "idle"), Fault{Kind: Isolate, Nodes: []int{3}})
		f := Fault{Kind: Isolate, Nodes: []int{3}}
		o.w.fab.change(func() { o.w.fab.apply(&f, true, Link{}) })
		o.measure()
		see := func(node int, peers ...int) {
			o.changed(node, roster.SetOf(peers...), roster.SetOf(peers...), roster.Set{})
		}
		for range 3 {
			<-time.After(time.Second)
			see(0, 0, 1, 2)
			see(0, 0, 1, 2, 3)
		}
		<-time.After(time.Second)
		see(0, 0, 1, 2)
		see(1, 0, 1) // too little: its view is not exact, but LEFT is reported
		see(3, 3)
		exact, below, left := o.detections()
		if at, ok := exact.Quantile(0); !ok || at != 4*time.Second || exact.Len() != 4 || exact.Missing != 2 {
			t.Errorf("exact: %s", show(exact))
		}
		if below.Len() != 1 || below.Missing != 0 || left.Len() != 3 || left.Missing != 1 {
			t.Errorf("below quorum: %s; LEFT: %s", show(below), show(left))
		}
	})
}

// If the group of one trial did not form, neither did that of the case.
func TestMergeKeepsThatAGroupDidNotForm(t *testing.T) {
	for _, unformed := range [][2]bool{{true, false}, {false, true}, {false, false}} {
		a, b := Report{Unformed: unformed[0]}, Report{Unformed: unformed[1]}
		if a.Merge(&b); a.Unformed != (unformed[0] || unformed[1]) {
			t.Errorf("%v makes %v", unformed, a.Unformed)
		}
	}
}
