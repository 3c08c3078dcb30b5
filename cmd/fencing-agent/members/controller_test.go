package members

import (
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/memberbook"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

func founded(epoch uint64, names ...string) List {
	l := listing(epoch, names...)
	l.Founded = true
	return l
}

// Guard: no node has confirmed the first list of a controller. So its number does not put it in force, and the group
// has to be founded with it. Once a list is in force, numbers count.
func TestFirstListOfAControllerIsFounded(t *testing.T) {
	m, _ := desk(t.TempDir(), given{list: founded(1790000000, "n1", "n2")})
	s, directory, err := begin(t, m)
	if err != nil || !s.Fresh() || s.Base().Epoch != 0 {
		t.Fatalf("fresh %v, %v, %v", s.Fresh(), s.Base().Ref(), err)
	}
	if s.Unfounded() != "" {
		t.Error("a source that is none of the controller's needs founders")
	}
	core := coreOf(s, directory)
	m.Learn(core, founded(1790000001, "n1", "n2", "n3")) // another first list
	if !s.Fresh() || s.Base().Epoch != 0 || s.Base().Size() != 3 {
		t.Errorf("%v of %d", s.Base().Ref(), s.Base().Size())
	}

	m, _ = desk(t.TempDir(), given{list: listing(0, "n1", "n2")})
	remembers(t, m, listing(0, "n1", "n2"))
	if s, directory, err = begin(t, m); err != nil {
		t.Fatal(err)
	}
	core = coreOf(s, directory)
	next := founded(1790000001, "n1", "n2", "n3")
	m.Learn(core, next)
	r, err := next.roster("n1")
	if err != nil || s.Lookup(r.Ref()) == nil {
		t.Errorf("a numbered list is not known: %v", err)
	}
}

// Two agents of one node end each other's streams again and again. They retry less and less often, and do not fill the
// log. If a replica that stops ends a stream once, after hours, the agent is back soon.
func TestTwoAgentsOfOneNodeYield(t *testing.T) {
	c := newFollower(t).controllerSource
	backoff := client.Backoff{First: controllerFirst, Most: controllerLongest}
	var sum time.Duration
	for range 20 {
		sum += c.pause(true, status.Error(codes.Aborted, "another agent of this node now follows the list"), &backoff)
	}
	if sum < 6*time.Minute {
		t.Errorf("twenty streams that the other agent ends in %v", sum)
	}
	for range 20 {
		if d := c.pause(true, status.Error(codes.Unavailable, "it stops"), &backoff); d > 2*controllerFirst {
			t.Errorf("back after %v", d)
		}
	}
}

// Guard: with the controller as the source a group is founded only with the nodes that the configuration names.
func TestControllerFoundsOnlyWithTheFounders(t *testing.T) {
	for _, c := range []struct {
		founders []string
		want     string
	}{{nil, "no initial members are named"}, {[]string{"n1", "n2"}, ""}, {[]string{"n2", "n3"}, "it does not list n3"}} {
		m, _ := desk(t.TempDir(), given{list: founded(1790000000, "n1", "n2")})
		m.cfg.Config.Members.Source, m.cfg.Config.Members.Controller.Founders = config.SourceController, c.founders
		s, _, err := begin(t, m)
		if err != nil || s.Unfounded() != c.want || strings.Contains(Standing(s), "no group is founded") != (c.want != "") {
			t.Errorf("%v: %q, %q, %v", c.founders, s.Unfounded(), Standing(s), err)
		}
	}
}

// follower is a source without a network, and a record of its reports.
type follower struct {
	*controllerSource
	now    boottime.Instant
	lists  []List
	states []ownnode.State
	log    strings.Builder
}

func newFollower(t *testing.T) *follower {
	t.Helper()
	f := &follower{now: 1}
	c := config.Default()
	c.NodeName, c.NodeGroup, c.Members.CacheFile = "n1", "g", filepath.Join(t.TempDir(), "members.json")
	c.SystemNetworks = []config.SystemNetwork{{Name: "a"}}
	f.controllerSource = newControllerSource(&Config{
		Config: c, Logger: slog.New(slog.NewTextHandler(&f.log, nil)), Clock: func() boottime.Instant { return f.now },
		Local: func(*config.SystemNetwork, netip.Addr) (netip.Addr, error) {
			return netip.MustParseAddr("10.0.0.1"), nil
		},
		Node: func(s ownnode.State) { f.states = append(f.states, s) },
	})
	if moved, err := f.findOwn(); err != nil || !moved {
		t.Fatal(moved, err)
	}
	return f
}

func (f *follower) found(l List) { f.lists = append(f.lists, l) }

func (f *follower) told(u *fencingv1.MembersUpdate) (trouble string) {
	f.updated(u, func(text string) { trouble = text }, f.found)
	return trouble
}

func sent(t *testing.T, group string, l List) *fencingv1.NumberedList {
	t.Helper()
	r, err := roster.Of(l.Epoch, l.Members, "")
	if err != nil {
		t.Fatal(err)
	}
	n := &fencingv1.NumberedList{Group: group, Epoch: l.Epoch, Digest: r.Digest}
	for _, m := range l.Members {
		n.Members = append(n.Members, &fencingv1.ListedMember{Name: m.Name, Addresses: m.Addresses})
	}
	return n
}

// Once the follower believes a list of the controller, it passes the list to the core again and again. A removal waits.
// A refusal is logged once.
func TestFollowerBelieves(t *testing.T) {
	f := newFollower(t)
	if trouble := f.told(&fencingv1.MembersUpdate{Problem: "these agents have not told their addresses: n2"}); !strings.Contains(trouble, "n2") {
		t.Error(trouble)
	}
	four := listing(100, "n1", "n2", "n3", "n4")
	if trouble := f.told(&fencingv1.MembersUpdate{List: sent(t, "h", four)}); !strings.Contains(trouble, `group "h"`) || len(f.lists) != 0 {
		t.Error(trouble, f.lists)
	}
	f.now = f.now.Add(controllerLines)
	f.told(&fencingv1.MembersUpdate{List: sent(t, "g", four)})
	if len(f.lists) != 1 || f.lists[0].Epoch != 100 || !f.lists[0].Founded || !f.lists[0].Numbered {
		t.Fatalf("%+v", f.lists)
	}
	present, err := four.roster("n1")
	if err != nil {
		t.Fatal(err)
	}
	f.present.Store(present)
	f.now = f.now.Add(controllerAddress)
	f.tick(func(string) {}, f.found)
	if len(f.lists) != 2 || f.lists[1].Epoch != 100 {
		t.Fatalf("%+v", f.lists)
	}
	three := sent(t, "g", listing(101, "n1", "n2", "n3"))
	for range 3 {
		f.now = f.now.Add(controllerLook)
		if trouble := f.told(&fencingv1.MembersUpdate{List: three}); !strings.Contains(trouble, "shown for a while") {
			t.Error(trouble)
		}
	}
	f.now = f.now.Add(31 * time.Second)
	f.tick(func(string) {}, f.found)
	if last := f.lists[len(f.lists)-1]; last.Epoch != 101 || len(last.Members) != 3 {
		t.Errorf("%+v", last)
	}
	f.now = f.now.Add(controllerLines)
	f.told(&fencingv1.MembersUpdate{List: sent(t, "g", four)})
	if last := f.lists[len(f.lists)-1]; last.Epoch != 101 || !strings.Contains(f.log.String(), "older than 101") || strings.Count(f.log.String(), "shown for a while") != 1 {
		t.Errorf("%+v\n%s", last, f.log.String())
	}
}

// Each change of the Node is reported once, including that it is no longer Ready or was deleted.
func TestFollowerTellsOfTheNode(t *testing.T) {
	f := newFollower(t)
	u := &fencingv1.MembersUpdate{Node: &fencingv1.OwnNode{Exists: true, Uid: "u", Annotations: map[string]string{"off": ""}}}
	f.told(u)
	f.told(u)
	f.told(&fencingv1.MembersUpdate{}) // a sign of life
	if len(f.states) != 1 || !f.states[0].Known || !f.states[0].Exists || len(f.states[0].Annotations) != 1 {
		t.Errorf("%+v", f.states)
	}
	f.told(&fencingv1.MembersUpdate{Node: &fencingv1.OwnNode{Exists: true, Uid: "u", Annotations: map[string]string{"off": ""}, NotReady: true}})
	if len(f.states) != 2 || !f.states[1].NotReady {
		t.Errorf("it is not Ready any more: %+v", f.states)
	}
	f.states = f.states[:1]
	f.told(&fencingv1.MembersUpdate{Node: &fencingv1.OwnNode{Uid: "u"}})
	if len(f.states) != 2 || !f.states[1].Known || f.states[1].Exists {
		t.Errorf("%+v", f.states)
	}
}

// Guard: if a controller sends lists without end, one of them is examined per second, the last one counts, and the log
// stays short.
func TestFollowerLooksAtOneListInASecond(t *testing.T) {
	f := newFollower(t)
	f.waits.Store(true)
	for i := range 1000 {
		f.told(&fencingv1.MembersUpdate{List: sent(t, "g", listing(uint64(100+i), "n1", "n2"))})
		f.told(&fencingv1.MembersUpdate{List: sent(t, "g", listing(uint64(100+i), "n2"))})
	}
	f.told(&fencingv1.MembersUpdate{List: sent(t, "g", listing(5000, "n1", "n2", "n3"))})
	if len(f.lists) != 1 {
		t.Fatalf("%d lists were taken at once", len(f.lists))
	}
	f.now = f.now.Add(controllerLook)
	f.tick(func(string) {}, f.found)
	if len(f.lists) != 2 || len(f.lists[1].Members) != 3 {
		t.Errorf("%+v", f.lists[1:])
	}
	for i := range 100 {
		f.told(&fencingv1.MembersUpdate{Problem: strings.Repeat("x", i+1)})
	}
	if n := strings.Count(f.log.String(), "level=WARN"); n > 2 {
		t.Errorf("%d lines", n)
	}
	f.now = f.now.Add(controllerLines)
	f.tick(func(string) {}, f.found)
	if !strings.Contains(f.log.String(), strings.Repeat("x", 100)) {
		t.Error("the latest trouble is not told")
	}
}

// Guard: a list that was ahead of this node's clock is accepted when the clock has been corrected. The controller does
// not send it again.
func TestListIsTakenWhenTheClockIsRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(t)
		ahead := uint64(time.Now().Add(memberbook.Ahead + 20*time.Second).Unix())
		trouble := f.told(&fencingv1.MembersUpdate{List: sent(t, "g", listing(ahead, "n1", "n2"))})
		if len(f.lists) != 0 || !strings.Contains(trouble, "ahead of this node's clock") {
			t.Fatalf("%+v, %q", f.lists, trouble)
		}
		for range 2 {
			time.Sleep(controllerAddress)
			f.now = f.now.Add(controllerAddress)
			f.tick(func(string) {}, f.found)
		}
		if len(f.lists) != 1 || f.lists[0].Epoch != ahead {
			t.Errorf("%+v\n%s", f.lists, f.log.String())
		}
	})
}

// An agent whose address differs in a list reports its addresses again: the controller may have them from a dead
// stream.
func TestFollowerTellsAgainWhereItIs(t *testing.T) {
	f := newFollower(t)
	f.waits.Store(true)
	l := listing(100, "n1", "n2")
	l.Members[0].Addresses = map[string]string{"a": "10.0.0.77"}
	f.told(&fencingv1.MembersUpdate{List: sent(t, "g", l)})
	if !f.tick(func(string) {}, f.found) || f.tick(func(string) {}, f.found) {
		t.Error("it does not tell once")
	}
}

// Guard: a list that was accepted while the group was founded must be checked again afterwards, with its number.
// Otherwise a controller that lies could number the group's lists so high that no later list counts.
func TestListOfTheFoundingPassesAgain(t *testing.T) {
	f := newFollower(t)
	f.waits.Store(true)
	high := listing(1<<40, "n1", "n2")
	f.told(&fencingv1.MembersUpdate{List: sent(t, "g", high)})
	if len(f.lists) != 1 || !f.lists[0].Waiting {
		t.Fatalf("%+v", f.lists)
	}
	first := listing(0, "n1", "n2")
	founding, err := first.roster("n1")
	if err != nil {
		t.Fatal(err)
	}
	f.waits.Store(false)
	f.present.Store(founding)
	f.now = f.now.Add(controllerAddress)
	trouble := ""
	f.tick(func(text string) { trouble = text }, f.found)
	f.now = f.now.Add(controllerAddress)
	f.tick(func(string) {}, f.found)
	if len(f.lists) != 1 || !strings.Contains(trouble, "ahead of this node's clock") {
		t.Errorf("%+v, %q", f.lists, trouble)
	}
	f.now = f.now.Add(controllerLook)
	f.told(&fencingv1.MembersUpdate{List: sent(t, "g", listing(100, "n1", "n2"))})
	if len(f.lists) != 2 || f.lists[1].Waiting {
		t.Errorf("an honest one is not taken: %+v", f.lists)
	}

	m, _ := desk(t.TempDir(), given{list: listing(0, "n1", "n2")})
	s, directory, err := begin(t, m)
	if err != nil {
		t.Fatal(err)
	}
	late := founded(1<<40, "n1", "n2", "n3") // accepted a moment before the group was founded
	late.Waiting = true
	m.Learn(coreOf(s, directory), late)
	if r, err := late.roster("n1"); err != nil || s.Lookup(r.Ref()) != nil {
		t.Errorf("it is known by its number: %v", err)
	}
}
