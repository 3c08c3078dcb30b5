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
		if d[i].At == 0 {
			break
		}
		list = append(list, &Due{AtMs: (uint64(d[i].At) + 999_999) / 1_000_000, Who: setToWire(d[i].Who)})
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
		if ms := w.GetAtMs(); ms == 0 || ms > maxUptime {
			return d, fmt.Errorf("%d ms is no time on a clock", ms)
		}
		d[i].At = boottime.Instant(w.GetAtMs()) * boottime.Instant(time.Millisecond)
		if d[i].Who, err = setFromWire(w.GetWho(), limit); err != nil {
			return d, err
		}
		switch {
		case d[i].Who.IsEmpty():
			return d, errors.New("one of them names nobody")
		case d[i].Who.Intersects(all):
			return d, errors.New("a member has two")
		case i > 0 && d[i].At <= d[i-1].At:
			return d, errors.New("they are not in the order of their times")
		}
		all = all.Union(d[i].Who)
	}
	return d, nil
}
