package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

func TestLatest(t *testing.T) {
	for _, c := range []struct {
		identity string
		set      time.Duration
		want     time.Duration
	}{
		{"Software Watchdog", 10 * time.Second, 10 * time.Second},
		{"", 10 * time.Second, 10 * time.Second},
		{"iTCO_wdt", 0, 0}, // unknown stays unknown
		{"iTCO_wdt", 3 * time.Second, 6 * time.Second},
		{"iTCO_wdt", 30 * time.Second, time.Minute},
		{"IB700 WDT", 9 * time.Second, 10 * time.Second},
		{"IB700 WDT", 10 * time.Second, 10 * time.Second},
		{"IB700 WDT", 15 * time.Second, 16 * time.Second},
		{"i6300ESB timer", 60 * time.Second, 60 * time.Second}, // 0.42 s are within the delay that every driver is allowed
		{"i6300ESB timer", 1000 * time.Second, 1007 * time.Second},
	} {
		if got := (Driver{Identity: c.identity}).Latest(c.set); got != c.want {
			t.Errorf("%s set to %v: fires by %v, want %v", c.identity, c.set, got, c.want)
		}
	}
}

// Guard: if a watchdog was late on this machine, the same factor or the same offset is assumed for another timeout,
// whichever gives the later time. It is never assumed to be earlier than the known time of its driver.
func TestLatestByMeasurement(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		driver Driver
		set    time.Duration
		want   time.Duration
	}{
		{Driver{Measured: Measured{Offset: 10 * s, Factor: 2}}, 10 * s, 20 * s},
		{Driver{Measured: Measured{Offset: 10 * s, Factor: 2}}, 30 * s, 60 * s},
		{Driver{Measured: Measured{Offset: 10 * s, Factor: 2}}, 2 * s, 12 * s},
		{Driver{Measured: Measured{Offset: granted, Factor: 1.01}}, 30 * s, 30 * s}, // every driver may be this late
		{Driver{Measured: Measured{Factor: 1.04}}, 60 * s, 62400 * time.Millisecond},
		{Driver{Measured: Measured{Fired: true}}, 30 * s, 30 * s},
		{Driver{Identity: "iTCO_wdt", Measured: Measured{Fired: true}}, 30 * s, 60 * s},
		{Driver{Identity: "iTCO_wdt", Measured: Measured{Factor: 1.5}}, 30 * s, 90 * s},
		{Driver{Identity: "IB700 WDT", Measured: Measured{Offset: s, Factor: 1.1}}, 9 * s, 11 * s},
	} {
		if got := c.driver.Latest(c.set); got != c.want {
			t.Errorf("%+v set to %v: fires by %v, want %v", c.driver, c.set, got, c.want)
		}
	}
}

// Guard: the latest firing time of the watchdog is stated to peers, both before and after it is armed. If the driver
// would fire too late for a sentence, the node neither condemns itself nor obeys an order.
func TestLateDriverIsStatedAsItFires(t *testing.T) {
	budget := Budget{MaxAge: 4 * time.Second, Arbitrate: 10 * time.Second, Grant: 5 * time.Second, Feed: 2 * time.Second, Margin: time.Second}
	c := testCore(t, 4, func(cfg *Config) {
		cfg.Budget = budget.WithWatchdog(10 * time.Second)
		cfg.Sentence = Sentencing{After: 2 * time.Second, Timeout: 2 * time.Second}
	})
	c.SetDriver(Driver{Identity: "Software Watchdog"})
	c.SetGuard(true, 10*time.Second)
	if g := c.guard; g.Timeout != 10*time.Second || g.Horizon != budget.WithWatchdog(10*time.Second).Horizon() || !c.briefly() {
		t.Errorf("softdog: %+v, sentences %v", g, c.briefly())
	}
	c.SetDriver(Driver{Identity: "iTCO_wdt"})
	c.SetGuard(true, 10*time.Second)
	if g := c.guard; g.Timeout != 20*time.Second || g.Horizon != budget.WithWatchdog(20*time.Second).Horizon() {
		t.Errorf("iTCO: %+v, want a horizon of %v", g, budget.WithWatchdog(20*time.Second).Horizon())
	}
	for _, timeout := range []time.Duration{time.Second, 2 * time.Second} { // the driver accepts at least 3 s, which take 6 s, but at most 3 s can be announced
		if c.cfg.Sentence.Timeout = timeout; c.briefly() {
			t.Errorf("a sentence of %v with a driver that fires late", timeout)
		}
	}
	c.SetDriver(Driver{Identity: "IB700 WDT"})
	if c.cfg.Sentence.Timeout = 3 * time.Second; c.briefly() {
		t.Error("3 s are 4 s with this driver")
	}
	if c.cfg.Sentence.Timeout = 2 * time.Second; !c.briefly() {
		t.Error("2 s are 2 s with this driver")
	}
	c.SetDriver(Driver{})
	// The kernel shows the timeout that was set to the next agent, which cannot distinguish 3 s from a sentence,
	// however late the driver is.
	c.cfg.Sentence.Timeout = time.Second
	c.SetDriver(Driver{Identity: "IB700 WDT"})
	c.SetGuard(true, netgossip.MaxSentence)
	if c.briefly() {
		t.Error("an ordinary countdown of 3 s looks like that of a condemned boot")
	}
}
