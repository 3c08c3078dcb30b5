package recovery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/belief"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// Guard: renewTime is by the kubelet's clock. If that is behind, the Lease appears expired while the kubelet renews it.
// So the Lease is watched for as long as a kubelet takes to renew it, before the barrier and again by a replica that
// starts after it.
func TestAKubeletWhoseClockIsBehind(t *testing.T) {
	for _, barrier := range []bool{false, true} {
		s := tell(t, Settings{})
		s.node.Ready, s.node.Unknown = true, false
		if barrier {
			s.node.Tainted, s.node.Taint = true, Fenced(bootA)
		}
		renewed := s.now
		s.lease.Version += "+" // it is believed a moment after a renewal
		s.on = func(Request) {
			if s.now.Sub(renewed) >= 10*time.Second {
				renewed = renewed.Add(10 * time.Second)
				s.lease.Version, s.lease.Renewed = s.lease.Version+"+", renewed.Add(-time.Minute)
			}
		}
		if got := writes(s.run(time.Minute)); strings.Contains(got, "fenced-") || strings.Contains(got, "DELETE") {
			t.Errorf("barrier %v: %s", barrier, got)
		}
		if st := s.m.State(); st.Phase != InDispute {
			t.Errorf("barrier %v: %+v", barrier, st)
		}
	}
}

// The watch costs 11.4 s if the first report comes after the Lease has run out. It costs nothing if the first reporter
// was that much earlier than the proof, or if the Lease was waited for. Ready may be Unknown since an earlier silence.
func TestTheLeaseIsWatchedNoLongerThanNeeded(t *testing.T) {
	for _, c := range []struct {
		name    string
		unknown bool
		watched bool          // when it is believed
		left    time.Duration // the time for which the Lease is still valid
		quiet   time.Duration
		within  time.Duration
	}{
		{"it has run out", false, false, -time.Minute, 11300 * time.Millisecond, 400 * time.Millisecond},
		{"and Ready is Unknown", true, false, -time.Minute, 11300 * time.Millisecond, 400 * time.Millisecond},
		{"it was watched", false, true, -time.Minute, 0, 100 * time.Millisecond},
		{"it runs out in time", false, false, 30 * time.Second, 29900 * time.Millisecond, 400 * time.Millisecond},
	} {
		s := tell(t, Settings{})
		s.node.Ready, s.node.Unknown = !c.unknown, c.unknown
		s.lease.Renewed = s.now.Add(c.left - s.lease.Duration)
		if !c.watched {
			s.lease.Version = "8"
		}
		if got := writes(s.run(c.quiet)); got != "" {
			t.Errorf("%s: too early: %s", c.name, got)
		}
		if got := writes(s.run(c.within)); !strings.HasPrefix(got, "TAINT(fenced-") {
			t.Errorf("%s: too late: %q, %+v", c.name, got, s.m.State())
		}
	}
}

// Guard: a read of the Lease that was requested too early proves nothing, however late its answer is.
func TestALateAnswerWatchesNothing(t *testing.T) {
	s := tell(t, Settings{})
	s.node.Ready, s.node.Unknown = true, false
	s.run(100 * time.Millisecond)
	s.slow[ReadLease] = 12 * time.Second
	if got := writes(s.run(13 * time.Second)); got != "" {
		t.Errorf("by an answer that is 12 s old: %s", got)
	}
}

// Guard: replicas whose clocks differ a little do not dispute each other's recoveries. The Lease has not changed; by
// this clock it holds for a moment more.
func TestAReplicaWhoseClockIsBehindWaits(t *testing.T) {
	s := tell(t, Settings{})
	s.lease.Renewed = s.now.Add(-s.lease.Duration).Add(5500 * time.Millisecond)
	s.run(50 * time.Millisecond)
	s.node.Tainted, s.node.Taint, s.node.Version = true, Fenced(bootA), "2" // by the other replica
	if got := writes(s.run(5400 * time.Millisecond)); got != "" {
		t.Errorf("while the Lease holds: %s", got)
	}
	if got := writes(s.run(20 * time.Second)); got != "DELETE(db-0@p0/10)" {
		t.Errorf("then: %q, %+v", got, s.m.State())
	}
}

// Guard: a death that somebody names is shown and looked at, even if none of the reporters counts.
func TestNamedByNobodyThatCounts(t *testing.T) {
	s := tell(t, Settings{})
	s.verdict = belief.Verdict{Named: 2, Missing: "0 of 2 Nodes name this boot; 2 more have no fresh Lease"}
	if log := s.run(time.Minute); strings.Count(log, "reporters") < 5 {
		t.Errorf("looked at %d times in a minute", strings.Count(log, "reporters"))
	}
	if st := s.m.State(); st.Phase != Unproven || !strings.Contains(st.Text, "no fresh Lease") {
		t.Errorf("%+v", st)
	}
	s.verdict = belief.Verdict{Believed: true, Named: 2, Reporters: []string{"n1", "n2"}}
	if got := writes(s.run(11 * time.Second)); !strings.HasPrefix(got, "TAINT(fenced-") {
		t.Errorf("when they count: %q", got)
	}
}

// Guard: to notice withdrawals, a machine remembers only a few reporters, however many there are, and they stay the
// same.
func TestFewReportersAreRemembered(t *testing.T) {
	s := tell(t, Settings{})
	var first string
	for i := range 40 {
		names := []string{"n1", "n2"}
		for j := range 12 {
			names = append(names, strings.Repeat("x", 1+i)+strings.Repeat("y", j))
		}
		s.verdict.Reporters = names
		s.run(31 * time.Second)
		got := s.m.reporters
		if len(got) != MostReporters || got[0] != "n1" || got[1] != "n2" {
			t.Fatalf("round %d: %d are remembered: %q", i, len(got), got)
		}
		if i == 0 {
			first = strings.Join(got[:2], " ")
		} else if strings.Join(got[:2], " ") != first {
			t.Fatalf("round %d: %q, want %q first", i, got, first)
		}
	}
}

// Guard: a pod that cannot be deleted holds up no other, whether the refusal is quick or slow, and is not tried all the
// time.
func TestOnePodThatCannotBeDeleted(t *testing.T) {
	for _, slow := range []time.Duration{time.Millisecond, 5 * time.Second} {
		s := tell(t, Settings{})
		s.pods = []Pod{
			{Name: "a1", UID: "a1", Version: "1", Deleting: true}, {Name: "a2", UID: "a2", Version: "1", Deleting: true},
			{Name: "b1", UID: "b1", Version: "1", Deleting: true}, {Name: "b2", UID: "b2", Version: "1", Deleting: true},
		}
		s.run(100 * time.Millisecond)
		s.on = func(Request) {
			delete(s.refuse, DeletePod)
			delete(s.slow, DeletePod)
			if len(s.m.todo) > 0 && strings.HasPrefix(s.m.todo[0].Pod.Name, "a") {
				s.refuse[DeletePod], s.slow[DeletePod] = Failed, slow
			}
		}
		log := s.run(5 * time.Minute)
		if !strings.Contains(log, "DELETE(b1") || !strings.Contains(log, "DELETE(b2") || len(s.pods) != 2 {
			t.Errorf("refused in %v: %s", slow, writes(log))
		}
		if n := strings.Count(log, "DELETE(a"); n < 10 || n > 60 {
			t.Errorf("refused in %v: tried %d times in 5 min", slow, n)
		}
		if st := s.m.State(); st.Trouble != "refused" || st.Left != 2 {
			t.Errorf("refused in %v: %+v", slow, st)
		}
	}
}

// Guard: many such pods do not hold up the others for a round either.
func TestManyPodsThatCannotBeDeleted(t *testing.T) {
	s := tell(t, Settings{})
	s.pods = nil
	for _, name := range []string{"a1", "a2", "a3", "a4", "a5", "a6", "b"} {
		s.pods = append(s.pods, Pod{Name: name, UID: name, Version: "1", Deleting: true})
	}
	s.on = func(Request) {
		delete(s.refuse, DeletePod)
		if len(s.m.todo) > 0 && strings.HasPrefix(s.m.todo[0].Pod.Name, "a") {
			s.refuse[DeletePod] = Failed
		}
	}
	if log := s.run(1500 * time.Millisecond); !strings.Contains(log, "DELETE(b@") || len(s.pods) != 6 {
		t.Errorf("half a second after the barrier has settled: %s", writes(log))
	}
}

// Guard: a node that waits for other nodes polls slowly: each look is dozens of requests in a large group.
func TestWaitingNodesPollSlowly(t *testing.T) {
	for _, c := range []struct {
		name string
		most int // looks in a minute
		hold func(*story)
	}{
		{"evictions go on", 4, func(s *story) { s.m.pace.Begin("n9", storm.Group{Size: 4, Dead: 1}, s.now) }},
		{"too many are dead", 7, func(s *story) {
			s.m.pace = storm.New(storm.Settings{Evicting: 1, DeletesPerSecond: 20, MaxDeadPercent: 50})
			s.group.Dead = 3
		}},
	} {
		s := tell(t, Settings{})
		c.hold(s)
		if n := strings.Count(s.run(time.Minute), "reporters"); n < 2 || n > c.most {
			t.Errorf("%s: %d looks in a minute, want at most %d", c.name, n, c.most)
		}
	}
}

// Guard: an API server that answers too slowly for the barrier is not asked without a pause, and the state shows what
// the controller waits for. The API server is overloaded at that moment, and each look is dozens of requests in a large
// group. Once it is quick, the first look is enough.
func TestSlowAnswersAboutTheLease(t *testing.T) {
	s := tell(t, Settings{})
	s.slow[ReadLease] = 1200 * time.Millisecond
	log := s.run(2500 * time.Millisecond)
	if n := strings.Count(log, "lease"); n != 2 {
		t.Errorf("%d looks in 2.5 s: the second follows the first at once: %s", n, log)
	}
	if log = s.run(time.Minute); strings.Count(log, "lease") < 10 || strings.Count(log, "lease") > 19 || writes(log) != "" {
		t.Errorf("in a minute: %s", log)
	}
	want := State{Phase: Proven, Text: "the API server takes longer than 1s to answer: trying again", Held: SlowAnswers}
	if st := s.m.State(); st != want {
		t.Errorf("%+v", st)
	}
	s.slow[ReadLease] = 900 * time.Millisecond
	if log = s.run(3 * time.Second); !strings.HasPrefix(log, "node reporters lease TAINT(fenced-") {
		t.Errorf("when it is quick: %s", log)
	}
	if st := s.m.State(); st.Phase != Draining && st.Phase != Released || st.Held != "" {
		t.Errorf("when it is quick: %+v", st)
	}
}

// Guard: the same holds for deletions.
func TestSlowAnswersBeforeADeletion(t *testing.T) {
	s := tell(t, Settings{})
	s.run(100 * time.Millisecond)
	s.slow[ReadLease] = 1200 * time.Millisecond
	log := s.run(time.Minute)
	if n := strings.Count(log, "lease"); n < 10 || n > 20 || writes(log) != "" {
		t.Errorf("%d looks in a minute: %s", n, log)
	}
	if st := s.m.State(); st.Phase != Draining || !strings.Contains(st.Text, "trying again") || st.Held != SlowAnswers || st.Left != 1 {
		t.Errorf("%+v", st)
	}
	s.slow[ReadLease] = 0
	if got := writes(s.run(3 * time.Second)); got != "DELETE(db-0@p0/10)" || s.m.State().Held != "" {
		t.Errorf("when it is quick: %q, %+v", got, s.m.State())
	}
}

// Guard: a deletion that has to wait for its turn does not mean that the API server is slow.
func TestThePaceIsNoSlowAnswer(t *testing.T) {
	s := tell(t, Settings{})
	s.pods = nil
	for i := range 100 {
		s.pods = append(s.pods, Pod{Name: fmt.Sprintf("p-%d", i), UID: fmt.Sprint(i), Version: "1", Deleting: true})
	}
	s.on = func(Request) {
		if st := s.m.State(); st.Held != "" || strings.Contains(st.Text, "trying again") {
			t.Fatalf("%+v", st)
		}
	}
	if s.run(7 * time.Second); len(s.pods) > 0 {
		t.Errorf("%d pods are left", len(s.pods))
	}
}
