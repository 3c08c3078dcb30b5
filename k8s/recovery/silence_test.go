package recovery

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// kubeletTimes are two settings of a kubelet: nodeLeaseDurationSeconds and nodeStatusUpdateFrequency, which is the
// timeout of each request to renew the Lease as well.
type kubeletTimes struct{ lease, timeout time.Duration }

// renewals are when a kubelet renews its Lease, from some time before 0 on, as k8s.io/component-helpers does: a quarter
// of the duration after the last time and up to 4 % later. The API server that it is connected to dies at stuck: two
// requests time out, and the third goes over another connection.
func (k kubeletTimes) renewals(r *rand.Rand, stuck, end time.Duration) []time.Duration {
	span := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d) + 1)) }
	quarter := k.lease / 4
	var list []time.Duration
	for at, closed := -quarter-span(quarter), false; at < end; {
		if at >= stuck && !closed {
			at, closed = at+2*min(k.timeout, k.lease), true
		}
		list = append(list, at+span(50*time.Millisecond))
		at = list[len(list)-1] + quarter + span(quarter/25)
	}
	return list
}

// silent runs one machine beside a kubelet that was last heard at the renewals, from the moment at which two agents say
// FENCED. It returns when the taint came, after that; negative: not within a minute and a half.
func silent(t *testing.T, k kubeletTimes, renewals []time.Duration, fenced time.Duration) time.Duration {
	s := tell(t, Settings{})
	cut := s.now
	s.now = cut.Add(fenced)
	show := func(Request) {
		for i, at := range renewals {
			if cut.Add(at).After(s.now) {
				break
			}
			s.lease = Lease{true, string(rune('a' + i)), cut.Add(at), k.lease}
		}
		s.node.Unknown = s.now.Sub(s.lease.Renewed) > 50*time.Second // kube-controller-manager's grace
		s.node.Ready = !s.node.Unknown
	}
	show(Request{})
	s.on = show
	for range 900 {
		if strings.Contains(writes(s.run(100*time.Millisecond)), "fenced-") {
			return s.now.Sub(cut) - fenced
		}
		show(Request{})
	}
	return -1
}

// Guard: all agents are wrong about a node, and what hides it from them takes the API server that its kubelet is
// connected to as well. The kubelet is silent for two timeouts; then its Lease contradicts the proof. That holds if the
// Lease lasts longer than the silence: docs/controller.md says which settings do that, and this test that the others
// do not.
func TestAKubeletWhoseAPIServerDies(t *testing.T) {
	seed := rand.Uint64N(1 << 40)
	t.Logf("seeds from %d on", seed)
	for _, c := range []struct {
		kubeletTimes
		holds bool
	}{
		{kubeletTimes{40 * time.Second, 10 * time.Second}, true},
		{kubeletTimes{30 * time.Second, 10 * time.Second}, true},
		{kubeletTimes{20 * time.Second, 4 * time.Second}, true},
		{kubeletTimes{10 * time.Second, 2 * time.Second}, true},
		{kubeletTimes{20 * time.Second, 10 * time.Second}, false},
		{kubeletTimes{10 * time.Second, 10 * time.Second}, false},
	} {
		wrong, runs := 0, 400
		for i := range uint64(runs) {
			r := rand.New(rand.NewPCG(seed+i, 29))
			fenced := 11600*time.Millisecond + time.Duration(r.Int64N(1400))*time.Millisecond
			stuck := time.Duration(r.Int64N(int64(fenced)))
			if at := silent(t, c.kubeletTimes, c.renewals(r, stuck, 100*time.Second), fenced); at >= 0 {
				wrong++
			}
		}
		t.Logf("a Lease of %v, requests of %v: %d of %d kubelets that run are taken for dead", c.lease, c.timeout, wrong, runs)
		if c.holds && wrong > 0 || !c.holds && wrong == 0 {
			t.Errorf("seed %d: a Lease of %v, requests of %v: %d of %d are taken for dead", seed, c.lease, c.timeout, wrong, runs)
		}
	}
}

// From FENCED to the taint, where the node is dead: the table of docs/measurements/cluster.md. The bound is what
// docs/controller.md says: a moment after the Lease has run out and was watched, whatever comes last.
func TestFromFencedToTheTaint(t *testing.T) {
	seed := rand.Uint64N(1 << 40)
	t.Logf("seeds from %d on", seed)
	for _, k := range []kubeletTimes{
		{40 * time.Second, 10 * time.Second}, {30 * time.Second, 10 * time.Second}, {20 * time.Second, 4 * time.Second}, {10 * time.Second, 2 * time.Second},
	} {
		var took, cut []time.Duration
		for i := range uint64(400) {
			r := rand.New(rand.NewPCG(seed+i, 30))
			fenced := 11600*time.Millisecond + time.Duration(r.Int64N(1400))*time.Millisecond
			list := k.renewals(r, time.Hour, 0)
			if last := list[len(list)-1]; last > 0 {
				list = list[:len(list)-1]
			}
			at := silent(t, k, list, fenced)
			took, cut = append(took, at), append(cut, at+fenced)
			out := list[len(list)-1] + k.lease - fenced
			if late := at - max(out, k.lease*26/100+time.Second); at < 0 || late > 400*time.Millisecond { // it looks each 200 ms, and this test each 100 ms
				t.Errorf("seed %d: a Lease of %v: tainted %v after FENCED, %v late", seed+i, k.lease, at, late)
			}
		}
		slices.Sort(took)
		slices.Sort(cut)
		n := len(took)
		t.Logf("a Lease of %v: tainted after FENCED p50 %.1f, max %.1f s; after the cut p50 %.1f, max %.1f s", k.lease,
			took[n/2].Seconds(), took[n-1].Seconds(), cut[n/2].Seconds(), cut[n-1].Seconds())
	}
}

// Guard: a kubelet whose clock is behind renews up to 4 % later than a quarter of the duration, which is more than a
// second for a long Lease.
func TestALongLeaseIsWatchedForItsJitter(t *testing.T) {
	s := tell(t, Settings{})
	s.node.Ready, s.node.Unknown = true, false
	s.lease.Duration = 200 * time.Second
	s.lease.Renewed = s.now.Add(-time.Hour)
	at := s.now.Add(52 * time.Second)
	s.on = func(Request) {
		if !s.now.Before(at) {
			s.lease.Version = "8"
		}
	}
	if got := writes(s.run(2 * time.Minute)); got != "" {
		t.Errorf("%s", got)
	}
}

// Guard: an answer that was long on its way says what the Lease was, not what it is. Where a new boot may not patch its
// Node, nothing else stops the barrier.
func TestTheBarrierNeedsAYoungLook(t *testing.T) {
	s := tell(t, Settings{})
	s.slow[ReadLease] = 1200 * time.Millisecond
	if got := writes(s.run(20 * time.Second)); got != "" {
		t.Errorf("by answers that are 1.2 s old: %s", got)
	}
	s.slow[ReadLease] = 900 * time.Millisecond
	if got := writes(s.run(3 * time.Second)); !strings.HasPrefix(got, "TAINT(fenced-") {
		t.Errorf("by younger ones: %q, %+v", got, s.m.State())
	}
}
