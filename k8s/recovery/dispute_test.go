package recovery

import (
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/belief"
)

// restart replaces the replica with one that has its settings and none of its memory.
func (s *story) restart() { s.m = New(s.m.settings, "n4", s.m.pace) }

// contradict makes the kubelet renew its Lease once, and then lose the API server for good. The agents' reports, and
// the clock, are then the same as for a dead node.
func (s *story) contradict() {
	s.lease.Version, s.lease.Renewed = s.lease.Version+"+", s.now.Add(-time.Hour)
}

// Guard: a boot that was called dead and was heard is not believed dead by a replica that starts, with or without the
// taint.
func TestADisputeOutlivesItsReplica(t *testing.T) {
	for _, barrier := range []bool{false, true} {
		s := tell(t, Settings{})
		if !barrier {
			s.lease.Renewed = s.now.Add(-35 * time.Second) // holds for 5 s more
		}
		s.run(500 * time.Millisecond)
		s.contradict()
		if got := writes(s.run(6 * time.Second)); got != "NOTE("+bootA+")" {
			t.Errorf("barrier %v: %q", barrier, got)
		}
		for range 3 {
			s.restart()
			if got := writes(s.run(2 * time.Minute)); strings.Contains(got, "fenced-") || strings.Contains(got, "DELETE") {
				t.Errorf("barrier %v, after a restart: %s", barrier, got)
			}
			if st := s.m.State(); st.Phase != InDispute {
				t.Errorf("barrier %v, after a restart: %+v", barrier, st)
			}
		}
	}
}

// Guard: the annotation does not apply to another boot, and is then removed.
func TestANoteOfAnotherBoot(t *testing.T) {
	s := tell(t, Settings{})
	s.node.Note = bootB
	if got := writes(s.run(2 * time.Second)); got != "NOTE() TAINT(fenced-"+bootA+"@u1/1n) DELETE(db-0@p0/10)" {
		t.Errorf("%s", got)
	}
}

// Guard: a Node that shows no boot keeps the annotation.
func TestANoteOfAnUnknownBoot(t *testing.T) {
	s := tell(t, Settings{})
	s.node.Note, s.node.Boot = bootA, ""
	s.verdict = belief.Verdict{Named: 2, Missing: "the Node has no bootID, or no group"}
	if got := writes(s.run(time.Minute)); got != "" || s.node.Note != bootA {
		t.Errorf("%s, note %q", got, s.node.Note)
	}
}

// Guard: when a person removes the annotation, the replica that remembers the dispute respects that without a restart.
// If the boot is heard later, that is a new dispute.
func TestAPersonTakesTheNoteOff(t *testing.T) {
	s := tell(t, Settings{})
	s.lease.Renewed = s.now.Add(-35 * time.Second)
	s.run(500 * time.Millisecond)
	s.contradict()
	s.run(time.Minute)
	if st := s.m.State(); st.Phase != InDispute || !strings.Contains(st.Text, NoteKey) {
		t.Fatalf("%+v", st)
	}
	s.node.Note, s.node.Version = "", "2"
	s.m.Poke()
	if got := writes(s.run(40 * time.Second)); got != "TAINT(fenced-"+bootA+"@u1/2) DELETE(db-0@p0/10)" {
		t.Errorf("%s, %+v", got, s.m.State())
	}
	s.contradict()
	s.pods = []Pod{{Name: "db-1", UID: "p1", Version: "1", Deleting: true}}
	s.m.Poke()
	if got := writes(s.run(time.Second)); got != "NOTE("+bootA+")" {
		t.Errorf("heard again: %s", got)
	}
}

// The node is healthy, and no longer called dead: people still see that nothing would be done for it.
func TestANoteIsShownAfterTheAlarm(t *testing.T) {
	s := tell(t, Settings{})
	s.node.Note, s.verdict, s.node.Ready, s.node.Unknown = bootA, belief.Verdict{}, true, false
	if got := writes(s.run(time.Hour)); got != "" || s.m.State().Phase != InDispute {
		t.Errorf("%s, %+v", got, s.m.State())
	}
}

// Guard: if the annotation may not be written, as with an earlier admission policy, everything else continues.
func TestANoteThatIsRefused(t *testing.T) {
	s := tell(t, Settings{})
	s.refuse[SetNote] = Failed
	s.run(500 * time.Millisecond)
	s.contradict()
	soon := writes(s.run(5 * time.Second))
	if !strings.Contains(soon, "TAINT(disputed-"+bootA) { // storage and NodeFences rely on what the Node says
		t.Errorf("nothing on the Node disputes it: %s", soon)
	}
	got := soon + " " + writes(s.run(2*time.Minute))
	if !strings.Contains(got, "TAINT(disputed-"+bootA) || strings.Contains(got, "DELETE") || s.m.State().Trouble == "" {
		t.Errorf("%s, %+v", got, s.m.State())
	}
	if n := strings.Count(got, "NOTE"); n < 3 || n > 20 {
		t.Errorf("tried %d times in 2 min", n)
	}
}

// Guard: dryRun writes nothing.
func TestDryRunWritesNoNote(t *testing.T) {
	s := tell(t, Settings{DryRun: true})
	s.run(500 * time.Millisecond)
	s.contradict()
	if got := writes(s.run(time.Minute)); got != "" || s.m.State().Phase != InDispute {
		t.Errorf("%s, %+v", got, s.m.State())
	}
}

// Guard: a kubelet that writes its Node runs, even if its Lease is not renewed: it stops each step.
func TestAKubeletThatWritesItsNode(t *testing.T) {
	for _, c := range []struct {
		name  string
		speak func(*story)
	}{
		{"Ready is no longer Unknown", func(s *story) { s.node.Ready, s.node.Unknown = true, false }},
		{"Ready was written again", func(s *story) { s.node.Heartbeat = "later" }},
	} {
		for _, at := range []struct {
			name  string
			after time.Duration
			most  string // the writes from then on
		}{
			{"before the barrier", 4 * time.Second, "NOTE(" + bootA + ")"},
			{"before the first deletion", 5100 * time.Millisecond, "NOTE(" + bootA + ") TAINT(disputed-" + bootA + "@u1/1+n)"},
			{"between deletions", 7 * time.Second, "NOTE(" + bootA + ") TAINT(disputed-" + bootA + "@u1/1+n)"},
			{"after the last", 30 * time.Second, "NOTE(" + bootA + ") TAINT(disputed-" + bootA + "@u1/1+n)"},
		} {
			s := tell(t, Settings{})
			s.node.Heartbeat = "before"
			s.lease.Renewed = s.now.Add(-s.lease.Duration).Add(5 * time.Second)
			if at.name == "between deletions" {
				for range 150 {
					s.pods = append(s.pods, Pod{Name: "db-1", UID: "p1", Version: "1", Deleting: true})
				}
			}
			before := writes(s.run(at.after))
			c.speak(s)
			s.m.Poke()
			left := writes(s.run(300 * time.Millisecond)) // one round may be under way
			if at.name != "between deletions" && strings.Contains(left, "DELETE") {
				t.Errorf("%s, %s: %s", c.name, at.name, left)
			}
			got := strings.TrimSpace(left + " " + writes(s.run(time.Minute)))
			if i := strings.Index(got, "NOTE"); i < 0 || got[i:] != at.most {
				t.Errorf("%s, %s: %s | %s", c.name, at.name, before, got)
			}
		}
	}
}

// Guard: the kubelet's last heartbeat before its end does not count after the proof, and a write of
// kube-controller-manager is not one of the kubelet.
func TestKubeControllerManagerIsNoKubelet(t *testing.T) {
	s := tell(t, Settings{})
	s.node.Heartbeat, s.node.Ready, s.node.Unknown = "before", true, false
	s.lease.Renewed = s.now.Add(-s.lease.Duration).Add(5 * time.Second)
	s.run(2 * time.Second)
	s.node.Ready, s.node.Unknown, s.node.Version = false, true, "2"
	if got := writes(s.run(20 * time.Second)); got != "TAINT(fenced-"+bootA+"@u1/2) DELETE(db-0@p0/10)" {
		t.Errorf("%s, %+v", got, s.m.State())
	}
}
