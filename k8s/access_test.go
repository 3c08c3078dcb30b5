package k8s_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/boottime/boottimetest"
	"github.com/fencing-agent/fencing-agent/k8s"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/k8stest"
	"github.com/fencing-agent/fencing-agent/k8s/marks"
	"github.com/fencing-agent/fencing-agent/k8s/nodelist"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const label = "node.deckhouse.io/group"

// run starts every part of an agent that talks to the API server, in a bubble.
func run(t *testing.T, s *k8stest.Server) *marks.Writer {
	t.Helper()
	core, err := s.Client(t, nil).For(client.Core)
	if err != nil {
		t.Fatal(err)
	}
	seeded := func(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
	writer, err := marks.New(marks.Config{Client: core, Node: "n1", Rand: seeded(1)})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := ownnode.New(ownnode.Config{Client: core, Node: "n1", Rand: seeded(2), OnState: writer.Seen})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var present []roster.Member
	source, err := nodelist.New(nodelist.Config{
		Client: core, Label: label, Group: "worker", Networks: []nodelist.Network{{Name: "mgmt", Port: 7946}}, Interval: 5 * time.Minute, Rand: seeded(3),
		Clock: boottimetest.Clock(0),
		Present: func() []roster.Member {
			mu.Lock()
			defer mu.Unlock()
			return present
		},
		OnList: func(ms []roster.Member, _ boottime.Instant) {
			mu.Lock()
			defer mu.Unlock()
			present = ms
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { writer.Run(ctx) })
	wg.Go(func() { watcher.Run(ctx) })
	wg.Go(func() { source.Run(ctx, nil) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return writer
}

func serve(t *testing.T) *k8stest.Server {
	s := k8stest.New(t)
	for i := range 3 {
		s.Put(k8stest.Node(fmt.Sprintf("n%d", i+1), map[string]string{label: "worker"}, fmt.Sprintf("10.0.0.%d", i+1)))
	}
	return s
}

// The test counts an agent's requests to the API server in its first hour, in a steady hour, and in an hour in which
// the server is unreachable.
func TestRequestsOfAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		writer := run(t, s)
		enabled := ""
		writer.Want(marks.Wish{marks.LabelEnabled: &enabled}, nil)
		writer.Event(marks.WatchdogArmed, "armed")
		counts := func() (lists, watches, others int) {
			for what, n := range s.Counts() {
				switch what {
				case "list nodes":
					lists = n
				case "watch nodes":
					watches = n
				default:
					others += n
				}
			}
			return lists, watches, others
		}
		hour := func() {
			for range 12 {
				time.Sleep(5 * time.Minute)
				s.Update("n1", func(n *corev1.Node) { n.Status.Phase = corev1.NodeRunning }) // the kubelet
			}
		}
		hour()
		// One list request is for this node's Node. The first list of members takes two, because a cached answer is not
		// believed. After that there is one every five minutes.
		lists, watches, others := counts()
		if lists < 3+11 || lists > 3+15 || watches != 1 || others != 2 {
			t.Errorf("the first hour: %d lists, %d watches, %d others, want 14..18, 1, 2", lists, watches, others)
		}
		hour()
		l, w, o := counts()
		if l-lists < 10 || l-lists > 15 || w-watches > 2 || o != others {
			t.Errorf("a steady hour: %d lists, %d watches, %d others, want 10..15, at most 2, 0", l-lists, w-watches, o-others)
		}
		s.Refuse(true)
		hour()
		s.Refuse(false)
		time.Sleep(5 * time.Minute)
		l2, w2, o2 := counts()
		if l2-l > 3 || w2-w != 1 || o2 != o {
			t.Errorf("when it is back: %d lists, %d watches, %d others, want at most 3, 1, 0", l2-l, w2-w, o2-o)
		}
	})
}

// Guard: the list of rights has exactly the rights that are used.
func TestAccessesAreWhatIsAskedFor(t *testing.T) {
	var listed []string
	for _, a := range k8s.Agent() {
		if a.Why == "" {
			t.Errorf("%+v has no reason", a)
		}
		pkg, _, _ := strings.Cut(strings.TrimPrefix(a.Why, "k8s/"), ":")
		if !slices.Contains([]string{"ownnode", "nodelist", "marks"}, pkg) {
			continue
		}
		for _, v := range a.Verbs {
			listed = append(listed, v+" "+a.Resource)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		writer := run(t, s)
		enabled := ""
		writer.Want(marks.Wish{marks.LabelEnabled: &enabled}, nil)
		writer.Event(marks.WatchdogArmed, "armed")
		time.Sleep(2 * time.Hour)
		s.Compact()
		s.EndWatches()
		time.Sleep(time.Hour)
		asked := s.Counts()
		for what := range asked {
			if !slices.Contains(listed, what) {
				t.Errorf("%s is not among the rights", what)
			}
		}
		for _, what := range listed {
			if asked[what] == 0 {
				t.Errorf("nobody asks for %s", what)
			}
		}
	})
}
