package agent

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	deathlist "github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/k8stest"
	"github.com/fencing-agent/fencing-agent/k8s/marks"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// teller is the part of an agent that writes deaths to a Node of an API server, in a bubble.
type teller struct {
	*Agent
	t      *testing.T
	server *k8stest.Server
	now    boottime.Instant
	fenced roster.Set
}

func newTeller(t *testing.T, annotation string) *teller {
	t.Helper()
	s := k8stest.New(t)
	n := k8stest.Node("n1", nil, "10.0.0.1")
	if annotation != "" {
		n.Annotations = map[string]string{deathlist.Annotation: annotation}
	}
	s.Put(n)
	core, err := s.Client(t, nil).For(client.Core)
	if err != nil {
		t.Fatal(err)
	}
	w, err := marks.NewAnnotation(marks.Config{Client: core, Node: "n1", Rand: rand.New(rand.NewPCG(1, 2))}, deathlist.Annotation)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	members := listing(t, "n1", "n2", "n3")
	l := &teller{t: t, server: s, now: boottime.Instant(10 * time.Second), Agent: &Agent{
		roster: members, log: slog.New(slog.DiscardHandler), kube: kube{deaths: newKubeDeaths(w)},
		core: watchdog.NewCore(watchdog.Config{Roster: members, Networks: 1, Policy: netgossip.Any(), MaxAge: 4 * time.Second}),
	}}
	l.self.boot = 0x11
	return l
}

// answers lets a peer answer under a boot. A second boot proves the end of the first.
func (l *teller) answers(p int, boot uint64) {
	l.now = l.now.Add(time.Second)
	l.core.Merger().Answered(netgossip.Answer{Peer: p, SentAt: l.now, Statement: &netgossip.Statement{
		Boot: boot, RosterEpoch: l.roster.Epoch, RosterDigest: l.roster.Digest, Seen: roster.SetOf(0),
	}})
	l.core.Step(l.now)
}

// step takes a step and returns what the Node has then.
func (l *teller) step() string {
	l.now = l.now.Add(time.Second)
	fx := *l.core.Step(l.now)
	fx.Fenced = l.fenced
	l.kube.deaths.note(l.Agent, l.now, &fx)
	time.Sleep(time.Second) // in the bubble's time: longer than the spread of writes
	synctest.Wait()
	text, there := l.server.Get("n1").Annotations[deathlist.Annotation]
	if !there {
		return "none"
	}
	list, err := deathlist.Decode(text)
	if err != nil {
		l.t.Fatal(err)
	}
	out := ""
	for _, d := range list {
		out += fmt.Sprintf("%s %s %s;", d.Node, d.Boot[14:], d.Proof)
	}
	return out
}

func (l *teller) show() {
	n := l.server.Get("n1")
	l.kube.deaths.seen(ownnode.State{Known: true, Exists: true, Labels: n.Labels, Annotations: n.Annotations})
}

func (l *teller) expect(when, want string) {
	l.t.Helper()
	if got := l.step(); got != want {
		l.t.Errorf("%s the Node says %q, want %q", when, got, want)
	}
}

// Guard: a death names the boot of this node in which it was concluded, and keeps this name after a reboot. After a
// reboot, a controller does not believe it without other reports.
func TestDeathsSayInWhichBootTheyWereConcluded(t *testing.T) {
	said := func(l *teller) string {
		l.t.Helper()
		list, err := deathlist.Decode(l.server.Get("n1").Annotations[deathlist.Annotation])
		if err != nil || len(list) != 1 {
			l.t.Fatalf("%v, %v", list, err)
		}
		return list[0].Said
	}
	synctest.Test(t, func(t *testing.T) {
		l := newTeller(t, "")
		l.self.boot = 0x51
		l.answers(1, 0x21)
		l.answers(1, 0x31)
		l.fenced = roster.SetOf(1)
		l.show()
		l.step()
		if got := said(l); got != hex64(0x51) {
			t.Errorf("said in boot %s", got)
		}
		next := newTeller(t, l.server.Get("n1").Annotations[deathlist.Annotation])
		next.self.boot = 0x61
		next.show()
		next.step()
		if got := said(next); got != hex64(0x51) {
			t.Errorf("after a reboot: said in boot %s", got)
		}
	})
}

// Guards: exactly the nodes that are fenced are written, with the boot that ended. Nothing is written before the Node
// was seen, and nothing remains when the node is back.
func TestDeathsAreSaidOnTheOwnNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTeller(t, "")
		l.answers(1, 0x21)
		l.answers(1, 0x31) // 0x21 has ended
		l.expect("without a look at it,", "none")
		l.fenced = roster.SetOf(1)
		l.expect("without a look at it,", "none")
		l.show()
		l.expect("fenced,", "n2 21 boot;")
		l.fenced = roster.SetOf(1, 2) // no boot of n3 is known
		l.expect("still fenced,", "n2 21 boot;")
		l.fenced = roster.Set{}
		l.expect("back,", "none")
		if c := l.server.Counts()["patch nodes"]; c != 2 {
			t.Errorf("%d patches, want 2", c)
		}
	})
}

// Guard: a death that other nodes have reported is not annotated as found by this agent.
func TestHearsayIsAnnotatedAsTold(t *testing.T) {
	for d, want := range map[watchdog.Death]bool{
		{Proof: watchdog.ProofSentence}: false, {Proof: watchdog.ProofSentence, Hearsay: true}: true, {Proof: watchdog.ProofTime}: false, {Proof: watchdog.ProofPower}: true,
	} {
		if got := (&deathlist.Death{Proof: proofWord(d)}).Outside(); got != want {
			t.Errorf("%+v is annotated %q: told %v", d, proofWord(d), got)
		}
	}
}

// Guards: a restarted agent keeps the deaths that were written before, until it meets that node. So a death that is
// missing from a list was withdrawn, and was not lost in an upgrade of the agent.
func TestDeathsOutliveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former := deathlist.Encode([]deathlist.Death{
			{Node: "n2", Boot: "0000000000000021", Proof: "time", At: time.Now()},
			{Node: "n3", Boot: "0000000000000041", Proof: "time", At: time.Now().Add(-time.Minute)},
			{Node: "n9", Boot: "0000000000000051", Proof: "time", At: time.Now().Add(-time.Hour)}, // not on the list any more
			{Node: "n1", Boot: "0000000000000061", Proof: "time", At: time.Now().Add(-time.Hour)}, // this node, which runs
		})
		l := newTeller(t, former)
		l.show()
		l.expect("after a restart", "n2 21 time;n3 41 time;")
		l.answers(2, 0x43)
		l.expect("one is back,", "n2 21 time;")
		l.answers(1, 0x21)
		l.expect("the other answers by the boot that had ended,", "none")
	})
}

// Guard: a restarted agent takes back an earlier death of a node that it has never met, when other agents do.
func TestDeathsOfAFormerAgentAreTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTeller(t, deathlist.Encode([]deathlist.Death{{Node: "n3", Boot: "0000000000000041", Proof: "time", At: time.Now()}}))
		l.show()
		l.expect("after a restart", "n3 41 time;")
		for _, boot := range []uint64{0x31, 0x41} { // a contradiction of another boot changes nothing
			want := map[uint64]string{0x31: "n3 41 time;", 0x41: "none"}[boot]
			st := &netgossip.Statement{Boot: 0x21, RosterEpoch: l.roster.Epoch, RosterDigest: l.roster.Digest, Seen: roster.SetOf(0, 1)}
			st.Facts[0] = netgossip.Fact{Kind: netgossip.FactContradicted, Name: netgossip.NameDigest("n3"), Boot: boot}
			l.now = l.now.Add(time.Second)
			l.core.Merger().Answered(netgossip.Answer{Peer: 1, SentAt: l.now, Statement: st})
			l.expect("others take back a death", want)
		}
	})
}

// Guard: text from another writer is replaced, not trusted.
func TestUnreadableDeathsAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTeller(t, "{")
		l.show()
		l.expect("at first", "none")
	})
}
