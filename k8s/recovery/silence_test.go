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

// renewals returns the times at which a kubelet renews its Lease, from some time before 0 on, as
// k8s.io/component-helpers does: a quarter of the duration after the last time and up to 4 % later. The API server that
// it is connected to dies at stuck: two requests time out, and the third goes over another connection.
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

// silent runs one machine and a kubelet that was last heard at the given renewals, from the moment at which two agents
// report FENCED. It returns the time from then to the taint; negative: there was none within a minute and a half.
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

// Guard: all agents are wrong about a node, and the fault that hides it from them also takes the API server to which
// its kubelet is connected. The kubelet is silent for two timeouts; then its Lease contradicts the proof. This needs a
// Lease that lasts longer than the silence. docs/controller.md lists the settings with which it does, and this test
// shows that others do not.
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

// The times from FENCED to the taint of a dead node must match the table of docs/measurements/cluster.md. The bound is
// that of docs/controller.md: a moment after the Lease has run out and was watched, whichever comes last.
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
	s.lease.Version = "6"
	at := s.now.Add(52 * time.Second)
	s.on = func(Request) {
		if !s.now.Before(at) {
			s.lease.Version = "8"
		}
	}
	if got := acts(s.run(2 * time.Minute)); got != "" {
		t.Errorf("%s", got)
	}
}

// Guard: an answer that was on its way for a long time shows an old Lease, not the present one. If a new boot may not
// patch its Node, nothing else stops the barrier.
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

// Guard: a write that was allowed in time must not be sent long afterwards.
func TestWritesHaveADeadline(t *testing.T) {
	s := tell(t, Settings{})
	s.slow[ReadLease] = 900 * time.Millisecond
	looked, seen := time.Time{}, map[Kind]int{}
	s.on = func(r Request) {
		switch r.Kind {
		case ReadLease:
			looked = s.now.Add(-s.slow[ReadLease])
		case SetTaint, DeletePod:
			seen[r.Kind]++
			if r.Deadline != looked.Add(2*time.Second) {
				t.Errorf("%d: deadline %v after the look", r.Kind, r.Deadline.Sub(looked))
			}
		case Wait, ReadPods, ReadNode, ReadReporters, RemoveTaint:
			if !r.Deadline.IsZero() {
				t.Errorf("%d has a deadline", r.Kind)
			}
		}
	}
	s.run(10 * time.Second)
	if seen[SetTaint] != 1 || seen[DeletePod] != 1 {
		t.Errorf("%v", seen)
	}
	// A write that records a dispute allows nothing, so it is never too late.
	s = tell(t, Settings{})
	s.run(100 * time.Millisecond)
	s.lease.Version = "8"
	s.on = func(r Request) {
		if r.Kind == SetTaint && (r.Value != Disputed(bootA) || !r.Deadline.IsZero()) {
			t.Errorf("%+v", r)
		}
	}
	if got := writes(s.run(20 * time.Second)); !strings.Contains(got, "disputed-") {
		t.Errorf("%s", got)
	}
}

// Guard: a write that was not sent in time is not a failure of the API server and disputes nothing. It begins the round
// again: at once, and then with pauses.
func TestWritesThatAreNotSentInTime(t *testing.T) {
	for _, kind := range []Kind{SetTaint, DeletePod} {
		s := tell(t, Settings{})
		if kind == DeletePod {
			s.pods = append(s.pods, Pod{Name: "db-1", UID: "p1", Version: "11", Deleting: true})
			s.run(100 * time.Millisecond)
		}
		s.refuse[kind] = Late
		log := s.run(time.Minute)
		if n := strings.Count(log, "lease"); n < 20 || n > 33 || strings.Count(writes(log), " ") > 32 || strings.Contains(log, "disputed") {
			t.Errorf("%d: %d rounds in a minute: %s", kind, n, log)
		}
		if st := s.m.State(); !strings.Contains(st.Text, "trying again") || st.Held != SlowAnswers || st.Trouble != "" || st.Writes.Conflicts != 0 {
			t.Errorf("%d: %+v", kind, st)
		}
		delete(s.refuse, kind)
		if s.run(4 * time.Second); len(s.pods) > 0 || s.m.State().Held != "" || s.m.State().Writes.Tainted != 1 {
			t.Errorf("%d: when it is quick: %+v", kind, s.m.State())
		}
	}
}

// Guard: a barrier whose answer did not come in time may be set. Everything is read again, and it is not set twice.
func TestABarrierOfUnknownOutcome(t *testing.T) {
	s := tell(t, Settings{})
	s.refuse[SetTaint] = Failed
	s.on = func(r Request) {
		if r.Kind == SetTaint { // it was carried out
			s.node.Tainted, s.node.Taint, s.node.Version = true, r.Value, "2"
		}
	}
	log := s.run(3 * time.Second)
	if strings.Count(log, "TAINT") != 1 || !strings.Contains(log, "TAINT(fenced-"+bootA+"@u1/1) node pods node reporters lease") {
		t.Errorf("%s", log)
	}
	if !strings.Contains(log, "DELETE(db-0@p0/10)") || s.m.State().Phase == InDispute {
		t.Errorf("%s, %+v", log, s.m.State())
	}
}
