package recovery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/belief"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

const bootA, bootB = "024bc581b3a34be3", "124bc581b3a34be3"

// story holds what the API server shows, and what one machine does about it, on virtual time.
type story struct {
	t       *testing.T
	m       *Machine
	now     time.Time
	node    Node
	lease   Lease
	pods    []Pod
	verdict belief.Verdict
	group   Group
	slow    map[Kind]time.Duration // answers that take longer than a millisecond
	refuse  map[Kind]Outcome
	log     []string // requests
	on      func(Request)
}

func tell(t *testing.T, s Settings) *story {
	if s.Settle == 0 {
		s.Settle = time.Second
	}
	story := &story{
		t: t, now: epoch.Add(-20 * time.Second),
		m:       New(s, "n4", storm.New(storm.Settings{Evicting: 1, DeletesPerSecond: 20, MaxDeadPercent: 100})),
		node:    Node{Exists: true, UID: "u1", Version: "1", Boot: bootA, Unknown: true},
		lease:   Lease{true, "7", epoch.Add(-time.Minute), 40 * time.Second},
		verdict: belief.Verdict{Believed: true, Reporters: []string{"n1", "n2"}},
		group:   Group{"worker", 4, 1},
		slow:    map[Kind]time.Duration{}, refuse: map[Kind]Outcome{},
		pods: []Pod{{Name: "db-0", UID: "p0", Version: "10", Deleting: true}},
	}
	// The Lease has been watched when the second reporter names the boot.
	story.verdict.Believed = false
	story.run(epoch.Sub(story.now))
	story.verdict.Believed = true
	story.m.Poke()
	return story
}

// run lets the machine work for a while. The requests are logged.
func (s *story) run(d time.Duration) string {
	s.t.Helper()
	for end := s.now.Add(d); s.now.Before(end); {
		r := s.m.Next(s.now)
		if r.Kind == Wait {
			switch {
			case r.Until.IsZero() || r.Until.After(end):
				s.now = end
			default:
				s.now = r.Until
			}
			continue
		}
		asked := s.now
		s.now = s.now.Add(max(time.Millisecond, s.slow[r.Kind]))
		s.m.Done(asked, s.now, s.answer(r))
		if s.on != nil {
			s.on(r)
		}
	}
	text := strings.Join(s.log, " ")
	s.log = nil
	return text
}

func (s *story) answer(r Request) Reply {
	o := s.refuse[r.Kind]
	switch r.Kind {
	case ReadPods:
		s.log = append(s.log, "pods")
		return Reply{Outcome: o, Pods: slices.Clone(s.pods)}
	case ReadNode:
		s.log = append(s.log, "node")
		return Reply{Outcome: o, Node: s.node}
	case ReadReporters:
		s.log = append(s.log, "reporters")
		return Reply{Outcome: o, Verdict: s.verdict, Group: s.group}
	case ReadLease:
		s.log = append(s.log, "lease")
		return Reply{Outcome: o, Error: "refused", Lease: s.lease}
	case SetTaint, RemoveTaint:
		s.log = append(s.log, fmt.Sprintf("TAINT(%s@%s/%s)", r.Value, r.UID, r.Version))
		if o == Done {
			s.node.Tainted, s.node.Taint, s.node.Version = r.Kind == SetTaint, r.Value, s.node.Version+"+"
		}
	case SetNote:
		s.log = append(s.log, fmt.Sprintf("NOTE(%s)", r.Value))
		if o == Done {
			s.node.Note, s.node.Version = r.Value, s.node.Version+"n"
		}
	case DeletePod:
		s.log = append(s.log, fmt.Sprintf("DELETE(%s@%s/%s)", r.Pod.Name, r.Pod.UID, r.Pod.Version))
		if o == Done {
			s.pods = slices.DeleteFunc(s.pods, func(p Pod) bool { return p.UID == r.Pod.UID })
		}
	case Wait:
	}
	return Reply{Outcome: o, Error: "refused"}
}

// writes returns the requests of a log that change something.
func writes(log string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(log), func(w string) bool { return strings.ToUpper(w[:1]) != w[:1] }), " ")
}

// acts returns those writes without the annotations of disputes.
func acts(log string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(writes(log)), func(w string) bool { return strings.HasPrefix(w, "NOTE(") }), " ")
}

// Guard: the requests, their order and their preconditions.
func TestOrderOfRequests(t *testing.T) {
	s := tell(t, Settings{})
	if got, want := s.run(100*time.Millisecond), "node reporters lease TAINT(fenced-"+bootA+"@u1/1) pods node reporters lease"; got != want {
		t.Errorf("the first moment: %s\nwant %s", got, want)
	}
	if got := s.run(800 * time.Millisecond); got != "" {
		t.Errorf("before the barrier has settled: %s", got)
	}
	if got, want := s.run(300*time.Millisecond), "pods node reporters lease DELETE(db-0@p0/10)"; got != want {
		t.Errorf("then: %s\nwant %s", got, want)
	}
	s.run(10 * time.Second)
	if st := s.m.State(); st.Phase != Released || st.Writes != (Writes{Tainted: 1, Deleted: 1}) {
		t.Errorf("at the end: %+v", st)
	}
}

// Guard: if any one of these conditions is missing, nothing is written.
func TestNothingIsWrittenUnless(t *testing.T) {
	for _, c := range []struct {
		name  string
		phase Phase
		text  string
		spoil func(*story)
	}{
		{"it is believed", Unproven, "1 of 2", func(s *story) {
			s.verdict = belief.Verdict{Named: 1, Reporters: []string{"n1"}, Missing: "1 of 2 Nodes"}
		}},
		{"somebody names it", Watching, "", func(s *story) { s.verdict = belief.Verdict{} }},
		{"the Lease has run out", Proven, "Lease", func(s *story) { s.lease.Renewed = epoch.Add(time.Hour) }},
		{"there is a Lease", Held, "no Lease", func(s *story) { s.lease = Lease{} }},
		{"the Lease stays as it is", InDispute, "renewed after the proof", func(s *story) {
			s.lease.Renewed = s.now.Add(-39 * time.Second)
			s.on = func(r Request) {
				if r.Kind == ReadLease {
					s.lease.Version, s.lease.Renewed = "8", s.now.Add(-50*time.Second)
				}
			}
		}},
		{"the taint is nobody else's", Foreign, "somebody else", func(s *story) { s.node.Tainted, s.node.Taint = true, "nodeshutdown" }},
		{"the Node stays", Held, "being removed", func(s *story) { s.node.Leaving = true }},
		{"there is a Node", Gone, "does not exist", func(s *story) { s.node = Node{} }},
		{"it is in earnest", WouldAct, "dryRun", func(s *story) { s.m.settings.DryRun = true }},
		{"few of the group are dead", Proven, "maxDeadPercent", func(s *story) {
			s.m.pace = storm.New(storm.Settings{Evicting: 1, DeletesPerSecond: 20, MaxDeadPercent: 50})
			s.group.Dead = 3
		}},
		{"another node is done first", Proven, "have to end first", func(s *story) { s.m.pace.Begin("n9", storm.Group{Size: 4, Dead: 1}, s.now) }},
	} {
		s := tell(t, Settings{})
		c.spoil(s)
		if got := acts(s.run(2 * time.Minute)); got != "" && c.text != "have to end first" {
			t.Errorf("unless %s: %s", c.name, got)
		}
		if c.text == "have to end first" {
			s = tell(t, Settings{})
			c.spoil(s)
			s.run(time.Minute)
		}
		if st := s.m.State(); st.Phase != c.phase || !strings.Contains(st.Text, c.text) {
			t.Errorf("unless %s: %s, %q, want %s, %q", c.name, st.Phase, st.Text, c.phase, c.text)
		}
	}
}

// Guard: after the barrier, each of these alone ends the deletions.
func TestNothingIsDeletedUnless(t *testing.T) {
	for _, c := range []struct {
		name, writes string
		spoil        func(*story)
	}{
		{"the Lease stays as it is", "NOTE(" + bootA + ") TAINT(disputed-" + bootA + "@u1/1+n)", func(s *story) { s.lease.Version = "8" }},
		{"the Lease is not renewed", "NOTE(" + bootA + ") TAINT(disputed-" + bootA + "@u1/1+n)", func(s *story) { s.lease.Renewed = s.now.Add(time.Hour) }},
		{"no reporter takes it back", "NOTE(" + bootA + ") TAINT(disputed-" + bootA + "@u1/1+n)", func(s *story) {
			s.verdict = belief.Verdict{Reporters: []string{"n1"}, Withdrawn: []string{"n2"}, Missing: "n2 no longer names this boot"}
		}},
		{"it is still believed", "", func(s *story) { s.verdict = belief.Verdict{Reporters: []string{"n1"}, Missing: "1 of 2"} }},
		{"the boot is the same", "", func(s *story) { s.node.Boot = bootB; s.verdict = belief.Verdict{} }},
		{"the boot is known", "", func(s *story) { s.node.Boot = "" }},
		{"there is a Lease", "", func(s *story) { s.lease = Lease{} }},
		{"the taint is ours", "", func(s *story) { s.node.Taint = "nodeshutdown" }},
		{"the taint says fenced", "", func(s *story) { s.node.Taint = Disputed(bootA) }},
		{"the pod does not tolerate the taint", "", func(s *story) { s.pods[0].Tolerates = true }},
		{"the pod is not excluded", "", func(s *story) { s.pods[0].Excluded = true }},
		{"the pod was not deleted before", "", func(s *story) { s.pods[0].Forced = true }},
		{"the look at the Lease is young", "", func(s *story) { s.slow[ReadLease] = 1200 * time.Millisecond }},
		{"it is in earnest", "", func(s *story) { s.m.settings.DryRun = true }},
	} {
		s := tell(t, Settings{})
		s.run(100 * time.Millisecond)
		c.spoil(s)
		if got := writes(s.run(20 * time.Second)); got != c.writes {
			t.Errorf("unless %s: %q, want %q", c.name, got, c.writes)
		}
	}
}

// While the controller waits for a pod's deletionTimestamp, it does not delete the pod, unless evictions have made no
// progress for long.
func TestEvictionsAreAwaited(t *testing.T) {
	s := tell(t, Settings{})
	s.pods[0].Deleting = false
	if got := writes(s.run(9 * time.Second)); !strings.HasPrefix(got, "TAINT") || strings.Contains(got, "DELETE") {
		t.Errorf("in the first seconds: %s", got)
	}
	if st := s.m.State(); st.Left != 1 || st.Text != "1 pods left, 1 of them not evicted yet" {
		t.Errorf("state %+v", st)
	}
	if got := writes(s.run(5 * time.Second)); got != "DELETE(db-0@p0/10)" {
		t.Errorf("when nobody evicts: %s", got)
	}
}

// Guard: a pod that changed since it was read is read again, and so is everything else.
func TestConflictBeginsAgain(t *testing.T) {
	s := tell(t, Settings{})
	s.pods = append(s.pods, Pod{Name: "db-1", UID: "p1", Version: "11", Deleting: true})
	s.refuse[DeletePod] = Conflict
	log := s.run(1300 * time.Millisecond)
	if !strings.Contains(log, "DELETE(db-0@p0/10) pods node reporters lease DELETE(db-0@p0/10)") || strings.Contains(log, "db-1") {
		t.Errorf("after a conflict: %s", log)
	}
}

// A new boot renews the Lease before it shows in the Node: no alarm. Then the taint comes off, when all is calm.
func TestNodeReturns(t *testing.T) {
	s := tell(t, Settings{})
	s.pods = append(s.pods, Pod{Name: "stuck", UID: "p1", Version: "11"})
	s.run(100 * time.Millisecond)
	s.lease.Version, s.lease.Renewed = "8", s.now.Add(time.Hour)
	if got := acts(s.run(4 * time.Second)); got != "" {
		t.Errorf("while its Lease is renewed: %s", got)
	}
	s.node.Boot, s.node.Ready, s.node.Unknown, s.verdict = bootB, true, false, belief.Verdict{}
	if got := writes(s.run(time.Minute)); got != "" || s.m.State().Phase != Returning {
		t.Errorf("with pods of before: %s, %+v", got, s.m.State())
	}
	s.pods = []Pod{{Name: "agent", UID: "p9", Tolerates: true}}
	if got := writes(s.run(10 * time.Second)); got != "" {
		t.Errorf("a moment after the last pod: %s", got)
	}
	if got := writes(s.run(10 * time.Second)); got != "TAINT(@u1/1+n) NOTE()" || s.node.Tainted {
		t.Errorf("then: %s, %+v", got, s.m.State())
	}
	if s.run(time.Minute); s.m.State().Phase != Watching {
		t.Errorf("at the end: %+v", s.m.State())
	}
	// It dies again.
	s.node.Ready, s.node.Unknown = false, true
	s.verdict = belief.Verdict{Believed: true, Reporters: []string{"n1", "n2"}}
	s.lease.Renewed = s.now.Add(-time.Minute)
	s.m.Poke()
	if got := writes(s.run(time.Second)); got != "TAINT(fenced-"+bootB+"@u1/1+n+n)" {
		t.Errorf("when it dies again: %s", got)
	}
}

// The node that returns is not Ready, or dies while its taint is still there.
func TestNodeReturnsAndDies(t *testing.T) {
	s := tell(t, Settings{})
	s.run(3 * time.Second)
	s.node.Boot, s.node.Unknown, s.verdict, s.lease = bootB, false, belief.Verdict{}, Lease{true, "8", s.now, 40 * time.Second}
	s.m.Poke()
	if got := writes(s.run(35 * time.Second)); got != "" {
		t.Errorf("not Ready: %s", got)
	}
	s.node.Ready = true
	s.run(5 * time.Second)
	if got := writes(s.run(time.Minute)); got != "" {
		t.Errorf("with a Lease that has run out: %s", got)
	}
	s.node.Ready, s.node.Unknown = false, true
	s.verdict = belief.Verdict{Believed: true, Reporters: []string{"n1", "n2"}}
	s.pods = []Pod{{Name: "db-2", UID: "p2", Version: "12", Deleting: true}}
	if got := writes(s.run(5 * time.Second)); got != "TAINT(fenced-"+bootB+"@u1/1+) DELETE(db-2@p2/12)" {
		t.Errorf("dead again: %s", got)
	}
}

// A machine whose memory is lost finds the taint, and goes on when it has watched the Lease.
func TestRestartGoesOn(t *testing.T) {
	s := tell(t, Settings{})
	s.run(100 * time.Millisecond)
	s.m = New(Settings{Settle: time.Second}, "n4", s.m.pace)
	if got := s.run(11300 * time.Millisecond); writes(got) != "" {
		t.Errorf("at once: %s", got)
	}
	if got := writes(s.run(time.Second)); got != "DELETE(db-0@p0/10)" {
		t.Errorf("then: %s", got)
	}
}

// A Node that is made again under the same name is another one.
func TestNodeMadeAgain(t *testing.T) {
	s := tell(t, Settings{})
	s.run(100 * time.Millisecond)
	s.node = Node{Exists: true, UID: "u2", Version: "50", Boot: bootB, Ready: true}
	s.verdict, s.lease = belief.Verdict{}, Lease{true, "9", s.now.Add(time.Hour), 40 * time.Second}
	if got := writes(s.run(time.Minute)); got != "" || s.m.State().Phase != Watching {
		t.Errorf("%s, %+v", got, s.m.State())
	}
}

func TestFailuresAreTriedAgain(t *testing.T) {
	s := tell(t, Settings{})
	s.refuse[ReadLease] = Failed
	if got := writes(s.run(time.Minute)); got != "" || s.m.State().Trouble != "refused" {
		t.Errorf("%s, %+v", got, s.m.State())
	}
	delete(s.refuse, ReadLease)
	if got := writes(s.run(time.Minute)); !strings.HasPrefix(got, "TAINT") || s.m.State().Trouble != "" {
		t.Errorf("when it works again: %s, %+v", got, s.m.State())
	}
}

func TestDeletionsArePaced(t *testing.T) {
	s := tell(t, Settings{})
	s.pods = nil
	for i := range 100 {
		s.pods = append(s.pods, Pod{Name: fmt.Sprintf("p-%d", i), UID: fmt.Sprint(i), Version: "1", Deleting: true})
	}
	s.run(2 * time.Second)
	if left := len(s.pods); left < 55 || left > 85 {
		t.Errorf("%d of 100 pods are left a second after the barrier has settled, want about 60", left)
	}
	if s.run(5 * time.Second); len(s.pods) > 0 {
		t.Errorf("%d pods are left", len(s.pods))
	}
}

// Guard: a node that stays dead costs little. Each round is about five requests, of which one lists its pods.
func TestADeadNodeIsLookedAtRarely(t *testing.T) {
	s := tell(t, Settings{})
	s.run(10 * time.Second)
	log := s.run(time.Hour)
	if n := strings.Count(log, "pods"); n < 100 || n > 125 {
		t.Errorf("%d rounds in an hour, want one in 30 s", n)
	}
	s.node.Boot, s.verdict = bootB, belief.Verdict{}
	s.lease = Lease{true, "8", s.now.Add(time.Hour), 40 * time.Second}
	s.m.Poke() // the Node has changed
	if s.run(time.Second); s.m.State().Phase != Returning {
		t.Errorf("after a change: %+v", s.m.State())
	}
}
