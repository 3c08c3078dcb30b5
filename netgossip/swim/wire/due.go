package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

func duesToWire(d *netgossip.Dues) (list []*Due) {
	for i := range d {
		if d[i].Horizon == 0 {
			break
		}
		list = append(list, &Due{SinceMs: (uint64(d[i].Since) + 999_999) / 1_000_000, HorizonMs: millisUp(d[i].Horizon), Who: setToWire(d[i].Who)})
	}
	return list
}

// duesFromWire refuses what netgossip.Dues rules out. A claim that is too early would be believed: so a number that is
// no time on a clock is an error, and not the time that it overflows to.
func duesFromWire(list []*Due, limit int) (d netgossip.Dues, err error) {
	if len(list) > len(d) {
		return d, fmt.Errorf("there are %d, but at most %d are allowed", len(list), len(d))
	}
	var all roster.Set
	for i, w := range list {
		if ms := w.GetSinceMs(); ms == 0 || ms > maxUptime {
			return d, fmt.Errorf("%d ms is no time on a clock", ms)
		}
		if w.GetHorizonMs() == 0 {
			return d, errors.New("one of them has no horizon")
		}
		d[i].Since = boottime.Instant(w.GetSinceMs()) * boottime.Instant(time.Millisecond)
		d[i].Horizon = time.Duration(w.GetHorizonMs()) * time.Millisecond
		if d[i].Who, err = setFromWire(w.GetWho(), limit); err != nil {
			return d, err
		}
		switch {
		case d[i].Who.IsEmpty():
			return d, errors.New("one of them names nobody")
		case d[i].Who.Intersects(all):
			return d, errors.New("a member has two")
		}
		all = all.Union(d[i].Who)
	}
	return d, nil
}
