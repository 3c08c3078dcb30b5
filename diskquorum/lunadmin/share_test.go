package lunadmin

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

// shareTwo plays both parts, each with a device and a nonce.
func shareTwo(t *testing.T, one, two diskquorum.Device, nonce2 uint64) (r [2]*ShareReport, errs [2]error) {
	var wg sync.WaitGroup
	for i, o := range []ShareOptions{{Nonce: 7}, {Nonce: nonce2, Answer: true}} {
		wg.Go(func() { r[i], errs[i] = Share(t.Context(), []diskquorum.Device{one, two}[i], o) })
	}
	wg.Wait()
	return r, errs
}

func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := usedLUN(t)
		before := l.Bytes()
		one, two := l.Client(), l.Client()
		two.SetFaults(diskquorumtest.Faults{ReadDelay: diskquorumtest.Span{Min: 5 * time.Millisecond, Max: 5 * time.Millisecond}, WriteDelay: diskquorumtest.Span{Min: time.Millisecond, Max: 9 * time.Millisecond}, Split: 1})
		r, errs := shareTwo(t, one, two, 7)
		for i, role := range []string{"first", "second"} {
			if errs[i] != nil || r[i].Rounds != shareRounds || r[i].Role != role || r[i].RoundTrip.P50 <= 0 {
				t.Errorf("%s: %+v, %v", role, r[i], errs[i])
			}
		}
		if errs[0] == nil && r[0].Torn == 0 {
			t.Error("half done writes were not noticed")
		}
		if at := firstDifference(before, l.Bytes()); at < int(diskquorum.ScratchOffset(testSB.Slots)) {
			t.Errorf("byte %d outside the scratch block was written", at)
		}
	})
}

func TestShareFindsFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		two   func(*diskquorumtest.LUN) diskquorum.Device
		nonce uint64
		want  string
	}{
		{"two LUNs", func(*diskquorumtest.LUN) diskquorum.Device { return newLUN(t).Client() }, 7, "do not see the same LUN"},
		{"two nonces", func(l *diskquorumtest.LUN) diskquorum.Device { return l.Client() }, 8, "nothing of the other node was seen"},
		{"cache", func(l *diskquorumtest.LUN) diskquorum.Device {
			d := l.Client()
			d.SetFaults(diskquorumtest.Faults{StaleRead: 1})
			return d
		}, 7, "cache"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLUN(t)
				_, errs := shareTwo(t, l.Client(), c.two(l), c.nonce)
				if errs[0] == nil || errs[1] == nil || !strings.Contains(errs[0].Error()+errs[1].Error(), c.want) {
					t.Errorf("%v / %v, want %q", errs[0], errs[1], c.want)
				}
			})
		})
	}
}

// A plain check on a third node shares the block: both sides write again what it took away.
func TestShareBesideACheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLUN(t)
		third := l.Client()
		third.SetFaults(diskquorumtest.Faults{WriteDelay: diskquorumtest.Span{Min: 15 * time.Millisecond, Max: 40 * time.Millisecond}})
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = Check(t.Context(), third, 10, nil) }) // it may see a torn block of the others
		r, errs := shareTwo(t, l.Client(), l.Client(), 7)
		wg.Wait()
		if errs[0] != nil || errs[1] != nil || r[0].Others+r[1].Others == 0 {
			t.Errorf("%v, %v; %+v %+v", errs[0], errs[1], r[0], r[1])
		}
	})
}
