package leasequorum

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// seeds returns the seeds to play: only SEED if it is set, otherwise as many as RUNS, and by default few.
func seeds(t *testing.T, few int) (list []uint64) {
	if text := os.Getenv("SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	}
	if runs, err := strconv.Atoi(os.Getenv("RUNS")); err == nil {
		few = runs
	}
	for s := range few {
		list = append(list, uint64(s+1))
	}
	return list
}

// TestRandomSchedules splits, heals, crashes and restarts clusters while writes are lost, late, or land after they were
// given up. At every step it looks for two halves that feed.
func TestRandomSchedules(t *testing.T) {
	var wins, expiries, proofs, renewals, deletions, told, bridged int
	for _, seed := range seeds(t, 90) {
		w := newWorld(seed, []int{2, 4, 6}[seed%3])
		if v := w.run(40 * time.Second); v != "" {
			t.Fatalf("SEED=%d: %s\n%s", seed, v, strings.Join(w.trace, "\n"))
		}
		wins, expiries, proofs, renewals = wins+w.wins, expiries+w.expiries, proofs+w.proofs, renewals+w.renewals
		deletions, told, bridged = deletions+w.deletions, told+w.told, bridged+w.bridged
	}
	t.Logf("%d wins (%d of them learnt from a member), %d take-overs by proof, %d by expiry, %d renewals, %d deletions, %d times beside a majority", wins, told, proofs, expiries, renewals, deletions, bridged)
	if os.Getenv("SEED") == "" && (wins < 50 || expiries < 5 || proofs < 5 || renewals < 50 || deletions < 5 || told < 10 || bridged < 10) {
		t.Error("the schedules did not reach what they are to try")
	}
}
