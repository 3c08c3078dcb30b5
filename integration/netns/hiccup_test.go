package netns

import (
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// TestHiccups: which deviations are tolerated in an outage, and which are not.
func TestHiccups(t *testing.T) {
	began := time.Now()
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	change := func(s float64, p fencingv1.Permission, r fencingv1.Reason) observe.Change {
		return observe.Change{Node: "n1", Permission: p, Reason: r, At: at(s)}
	}
	hold := func(s float64) observe.Change {
		return change(s, fencingv1.Permission_PERMISSION_HOLD, fencingv1.Reason_REASON_NOBODY_LIVES)
	}
	asks := func(s float64) observe.Change {
		return change(s, fencingv1.Permission_PERMISSION_HOLD, fencingv1.Reason_REASON_LUN_ASKING)
	}
	alone := func(s float64) observe.Change {
		return change(s, fencingv1.Permission_PERMISSION_STARVE, fencingv1.Reason_REASON_ISOLATED)
	}
	left := func(s float64) observe.Event {
		return observe.Event{Observer: "n1", Node: "n1", Type: fencingv1.EventType_LEFT, At: at(s)}
	}
	for name, c := range map[string]struct {
		verdicts     []observe.Change
		events       []observe.Event
		held, itself bool // whether the conditions hold
	}{
		"no hiccup":             {[]observe.Change{asks(3), hold(4)}, nil, true, true},
		"LEFT without one":      {[]observe.Change{asks(3), hold(4)}, []observe.Event{left(3)}, true, false},
		"one":                   {[]observe.Change{alone(3), hold(4)}, []observe.Event{left(3)}, true, true},
		"one in the bridge":     {[]observe.Change{asks(3), alone(3.5), asks(4), hold(5)}, []observe.Event{left(3.5)}, true, true},
		"LEFT twice":            {[]observe.Change{alone(3), hold(4)}, []observe.Event{left(3), left(3.5)}, true, false},
		"LEFT is heard earlier": {[]observe.Change{asks(3), hold(4)}, []observe.Event{left(9.9)}, true, true},
		"two":                   {[]observe.Change{alone(3), asks(4), alone(5), hold(6)}, nil, false, true},
		"too long":              {[]observe.Change{alone(3), hold(7.5)}, nil, false, true},
		"it lasts":              {[]observe.Change{alone(3)}, nil, false, true},
		"it has begun":          {[]observe.Change{asks(3), alone(9)}, []observe.Event{left(9)}, true, true},
		"after nobody lives":    {[]observe.Change{asks(3), hold(4), alone(5), hold(6)}, nil, false, true},
		"another reason": {[]observe.Change{asks(3), change(4, fencingv1.Permission_PERMISSION_STARVE, fencingv1.Reason_REASON_QUORUM_LOST), hold(5)},
			[]observe.Event{left(4)}, false, false},
	} {
		v := &observe.View{Now: at(10), Verdicts: c.verdicts, Events: c.events}
		if got := heldOnly(began, "n1")(v); (got == "") != c.held {
			t.Errorf("%s: heldOnly says %q", name, got)
		}
		if got := notItself(began, "n1")(v); (got == "") != c.itself {
			t.Errorf("%s: notItself says %q", name, got)
		}
	}
}
