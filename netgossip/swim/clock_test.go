package swim

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

func TestPacketsAreDated(t *testing.T) {
	const boot, rebooted = 0xdeadbeefcafe, 0x1234567890abcdef
	second := func(n float64) boottime.Instant { return boottime.Instant(n * float64(time.Second)) }
	// The peer's clock is 4000 s, ours 1000 s when its answer comes.
	at := func(n float64) uint64 { return wire.ClockOf(boot, second(3000+n)) }
	answered := peerClock{}
	answered.read(at(1000), second(1000))
	for name, tc := range map[string]struct {
		clock        peerClock
		theirs       uint64
		came, expect float64
	}{
		"at once":                                {answered, at(1010), 1010, 1010},
		"late":                                   {answered, at(1010), 1013, 1010.01},
		"sent again an hour later":               {answered, at(1010), 4610, 1010.01},
		"from before the answer":                 {answered, at(400), 1700, 400},
		"from long before our start":             {answered, at(-2000), 1700, 0},
		"its clock is fast by as much as may be": {answered, at(2001), 2000, 2000},
		"its clock is slow by as much as may be": {answered, at(1999.001), 2000, 2000},
		"its clock stood still for a minute":     {answered, at(1940), 2000, 1940.94},
		"of another boot":                        {answered, wire.ClockOf(rebooted, second(9000)), 2000, 0},
		"never answered":                         {peerClock{}, at(1010), 1010, 0},
		"it tells no clock":                      {answered, 0, 1010, 0},
	} {
		got := tc.clock.dates(tc.theirs, second(tc.came))
		if d := got.Sub(second(tc.expect)); d < -time.Millisecond || d > time.Millisecond {
			t.Errorf("%s: made %v after our start, want %vs", name, time.Duration(got), tc.expect)
		}
	}
	c := answered
	c.read(at(990), second(1002)) // the answer was on its way for 12 s
	if c != answered {
		t.Error("an answer that was overtaken dates the packets")
	}
	if c.read(0, second(1050)); c != answered {
		t.Error("an answer without a clock dates the packets")
	}
	c.read(wire.ClockOf(rebooted, second(10)), second(1100))
	if got := c.dates(wire.ClockOf(rebooted, second(20)), second(5000)); got.Sub(second(1110)) > 10*time.Millisecond+time.Millisecond {
		t.Errorf("after a reboot: made at %v", time.Duration(got))
	}
	if got := c.dates(at(1010), second(5000)); got != 0 {
		t.Errorf("a packet of the former boot is of %v", time.Duration(got))
	}
}
