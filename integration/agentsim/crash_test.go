package agentsim

import (
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// Guard: what the documents promise of a crash, in groups with a LUN and without, with the W and F of the preset default: the
// death is known a horizon and a proof after the others miss the node, and that takes them D_max at most. -v says how long
// they took in the median.
func TestWhatACrashCosts(t *testing.T) {
	crashes := 10
	if testing.Short() {
		crashes = 3
	}
	for _, lun := range []bool{true, false} {
		preset := config.ForTiming(config.TimingDefault, 3, lun).Watchdog
		var missed []time.Duration
		for seed := range crashes {
			crash := time.Duration(seed) * 100 * time.Millisecond // another phase of the probes and feeds each time
			s := group(3+seed%3, func(s *Schedule) { s.Watchdog, s.Feed, s.LUN = preset.Timeout, preset.FeedInterval, lun }, at(crash, powerOff(0)))
			s.End += s.timing().dead
			r := run(t, s)
			late := said(t, r, "FENCED "+nodeName(0)+" PROOF_TIME") - crash - s.timing().dead - watchdog.ProofDelay
			if late < 0 || late > s.timing().maxAge {
				t.Errorf("LUN %v, crash at %v: FENCED %v after the horizon of %v and a proof\n%s", lun, crash, late, s.timing().dead, Explain(s, r))
			}
			missed = append(missed, late)
		}
		slices.Sort(missed)
		t.Logf("LUN %v, W %v: FENCED %v after the horizon and the proof, %v at least and %v at most", lun, preset.Timeout, missed[len(missed)/2], missed[0], missed[len(missed)-1])
	}
}
