package picture

import (
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// The API's enums are filled by name, so a renamed reason would silently become UNSPECIFIED. The test checks both
// directions: no reason is missing, and the API has no others.
func TestReasonsHaveTheirEnum(t *testing.T) {
	seen := map[fencingv1.Reason]watchdog.Reason{}
	for _, r := range watchdog.Reasons() {
		e := publish.ReasonOf(r.String())
		if other, twice := seen[e]; twice {
			t.Errorf("%v and %v are both %v", other, r, e)
		}
		if e == fencingv1.Reason_REASON_UNSPECIFIED {
			t.Errorf("reason %v has no enum", r)
		}
		seen[e] = r
	}
	for v, name := range fencingv1.Reason_name {
		if e := fencingv1.Reason(v); v != 0 && seen[e] == 0 {
			t.Errorf("no decision has the reason %s", name)
		}
	}
}

func TestActionsHaveTheirEnum(t *testing.T) {
	want := map[watchdog.Action]fencingv1.Permission{
		watchdog.Feed:   fencingv1.Permission_PERMISSION_FEED,
		watchdog.Hold:   fencingv1.Permission_PERMISSION_HOLD,
		watchdog.Starve: fencingv1.Permission_PERMISSION_STARVE,
		watchdog.Disarm: fencingv1.Permission_PERMISSION_DISARM,
	}
	for a, e := range want {
		if got := publish.PermissionOf(a.String()); got != e {
			t.Errorf("%v is %v, want %v", a, got, e)
		}
	}
	if len(want) != len(fencingv1.Permission_name)-1 {
		t.Errorf("the API has %d permissions, %d were tried", len(fencingv1.Permission_name)-1, len(want))
	}
}

func TestWatchdogStatesHaveTheirEnum(t *testing.T) {
	want := map[wdt.Status]fencingv1.WatchdogState{
		wdt.Unarmed:  fencingv1.WatchdogState_WATCHDOG_STATE_UNARMED,
		wdt.Armed:    fencingv1.WatchdogState_WATCHDOG_STATE_ARMED,
		wdt.Starved:  fencingv1.WatchdogState_WATCHDOG_STATE_STARVED,
		wdt.Disarmed: fencingv1.WatchdogState_WATCHDOG_STATE_DISARMED,
		wdt.Faulty:   fencingv1.WatchdogState_WATCHDOG_STATE_FAULTY,
	}
	for s, e := range want {
		if got := publish.WatchdogStateOf(s.String()); got != e {
			t.Errorf("%v is %v, want %v", s, got, e)
		}
	}
	if len(want) != len(fencingv1.WatchdogState_name)-1 {
		t.Errorf("the API has %d states, %d were tried", len(fencingv1.WatchdogState_name)-1, len(want))
	}
}

// A node that stays up because of another holder's writes shows this: its own path to the LUN needs repair. A node that
// has given up a grant that names it shows the reason.
func TestVerdictSaysWhatTheTieBreakerDid(t *testing.T) {
	say := func(r watchdog.Reason) *fencingv1.Verdict {
		v := Verdict{Decision: watchdog.Decision{Reason: r}, Relayed: true, Why: "why"}
		return v.Message()
	}
	if v := say(watchdog.ReasonSplitWon); !v.GetRelayed() || v.GetDetail() != "why" || v.GetGivenUp() != "" {
		t.Errorf("won: %v", v)
	}
	if v := say(watchdog.ReasonSplitLost); v.GetRelayed() || v.GetDetail() != "" || v.GetGivenUp() != "why" {
		t.Errorf("lost: %v", v)
	}
	if v := say(watchdog.ReasonSplitPending); v.GetDetail() != "why" || v.GetGivenUp() != "" {
		t.Errorf("pending: %v", v)
	}
	ordered := Verdict{Decision: watchdog.Decision{Reason: watchdog.ReasonCondemned}, OrderedBy: "n1", Why: "why"}
	if got, want := ordered.Text(), `this node has announced its self-fence: ordered by n1, where "fencectl history" says who gave the order, and why`; got != want {
		t.Errorf("condemned by an order: %s", got)
	}
	if ordered.OrderedBy = ""; !strings.Contains(ordered.Text(), "has lost for certain") {
		t.Errorf("condemned by itself: %s", ordered.Text())
	}
	if v := say(watchdog.ReasonNetworkQuorum); v.GetRelayed() || v.GetDetail() != "" {
		t.Errorf("majority: %v", v) // what is left of a tie that is over
	}
}
