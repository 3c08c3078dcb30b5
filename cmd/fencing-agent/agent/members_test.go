package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/members"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// showcase shows lists of members without numbers, to each node at a different time.
type showcase struct {
	f     *fleet
	mu    sync.Mutex
	shown map[string][]string // per node
	away  bool
}

func (s *showcase) show(members []string, to ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range to {
		s.shown[name] = members
	}
}

func (s *showcase) list(node string) (members.List, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := members.List{ReadAt: boottime.Now()}
	for _, m := range s.shown[node] {
		l.Members = append(l.Members, s.f.member(m))
	}
	return l, !s.away && len(l.Members) > 0
}

// window is a showcase as one node sees it.
type window struct {
	*showcase
	node string
}

func (w window) First(ctx context.Context, remembered bool) (members.List, error) {
	l, ok := w.list(w.node)
	if !ok && !remembered {
		return l, errors.New("the source is away")
	}
	return l, ctx.Err()
}

func (w window) Follow(ctx context.Context, again <-chan struct{}, found func(members.List)) {
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-again:
		}
		if l, ok := w.list(w.node); ok {
			found(l)
		}
	}
}

// The source gives no numbers and shows the agents the lists one after the other. The group is founded with the first
// list when all have met; a fourth node joins; one agent is restarted while the source is away.
func TestGroupNumbersTheListsItIsShown(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newFleet(t)
	three, four := []string{"n1", "n2", "n3"}, []string{"n1", "n2", "n3", "n4"}
	s := &showcase{f: f, shown: map[string][]string{}}
	f.source = func(node string) members.Source { return window{s, node} }
	for _, n := range four {
		f.configure(n, 0, four...)
	}
	s.show(three, three...)
	f.start(three...)
	f.await(0, three...)
	f.mark()

	s.show(four, "n2", "n4")
	f.start("n4")
	f.awaitLog("n2", "storing a list")
	s.show(four, "n1", "n3")
	epoch := roster.EpochOf(1, f.roster(four...))
	f.await(epoch, four...)
	f.calm(three...)

	f.mark()
	s.mu.Lock()
	s.away = true
	s.mu.Unlock()
	f.stop("n2", nil)
	f.start("n2")
	f.await(epoch, four...)
	f.calm("n1", "n3", "n4")
	if log := f.nodes["n2"].logged(); strings.Contains(log, "remembers no list") || slices.Contains(strings.Fields(log), "level=ERROR") {
		t.Errorf("n2 does not go on with what it remembers:\n%s", log)
	}
}

func (f *fleet) member(name string) roster.Member {
	h := f.hosts[name]
	return roster.Member{Name: name, Addresses: map[string]string{"a": fmt.Sprintf("127.81.1.%d", h), "b": fmt.Sprintf("127.81.2.%d", h)}}
}

func (f *fleet) roster(names ...string) *roster.Roster {
	f.t.Helper()
	var ms []roster.Member
	for _, n := range names {
		ms = append(ms, f.member(n))
	}
	r, err := roster.Of(0, ms, names[0])
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// awaitLog waits until a node has logged something.
func (f *fleet) awaitLog(node, text string) {
	f.t.Helper()
	deadline := time.After(fleetPatience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(f.nodes[node].logged(), text) {
		select {
		case <-tick.C:
		case <-deadline:
			f.t.Fatalf("%s does not log %q", node, text)
		}
	}
}
