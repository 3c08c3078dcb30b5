package gossipsim

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A member reports about all others, all the time and in all names, that they are silent. That makes nobody LEFT, not
// even a node that stalls for as long as is tolerated. It does not prevent the group from noticing which node is gone.
func TestALiarMakesNobodyLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r, err := simulate(config(12, "auto", "liar", lasting(16*time.Second), func(c *Config) { c.Stall = 1400 * time.Millisecond }))
		if err = errors.Join(err, w.close()); err != nil {
			t.Fatal(err)
		}
		if f := r.False; f.Reports+f.AtSlow+f.OfSlow > 0 {
			t.Errorf("false LEFTs: %+v", f)
		}
		if most, all := r.Left.Quantile(1); !all || most > 4*time.Second {
			t.Errorf("a crash is LEFT everywhere after %v, at all: %v", most, all)
		}
		if heard := len(w.liar.cookies); heard < 10 {
			t.Errorf("the liar got the cookies of %d of 11 members", heard)
		}
	})
}

// Each crash of a series is measured separately.
func TestCrashesOfASeriesAreMeasuredOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r, err := simulate(config(20, "auto", "crash-series", lasting(12*time.Second)))
		if err = errors.Join(err, w.close()); err != nil {
			t.Fatal(err)
		}
		if n := r.Left.Len(); n != 19+18 || r.Left.Missing > 0 {
			t.Errorf("%d measurements, %d of them without an end, want 37 and none", n, r.Left.Missing)
		}
		if least, _ := r.Left.Quantile(0); least < 1500*time.Millisecond {
			t.Errorf("LEFT after %v: not counted from its own crash", least)
		}
	})
}

// An agent that was restarted gives new cookies, and refuses messages that contain the old ones. It tells all others
// that there is news of it, and they ask it. Three seconds after its return it therefore hears of a death as early as
// the others.
func TestARestartedAgentHearsWordsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := newWorld(config(30, "auto", "crash-series", lasting(9*time.Second)))
		if err != nil {
			t.Fatal(err)
		}
		w.faults = []Fault{
			{Kind: Restart, For: time.Second, Nodes: []int{3}},
			{Kind: Crash, At: 4 * time.Second, Nodes: []int{17}},
		}
		r, err := w.run()
		if err = errors.Join(err, w.close()); err != nil {
			t.Fatal(err)
		}
		if most, all := r.Left.Quantile(1); !all || r.Left.Len() != 29 || most > 3*time.Second {
			t.Errorf("LEFT after %v at %d nodes, at all: %v", most, r.Left.Len(), all)
		}
	})
}
