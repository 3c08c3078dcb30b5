package nodelist

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/boottime/boottimetest"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/k8stest"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const label = "node.deckhouse.io/group"

var group = map[string]string{label: "worker"}

// rig is a source in a bubble. A list that is believed is in force at once.
type rig struct {
	*k8stest.Server
	source  *Source
	present []roster.Member
	told    int
	again   chan struct{}
}

func start(t *testing.T, s *k8stest.Server, interval time.Duration, present ...roster.Member) *rig {
	t.Helper()
	core, err := s.Client(t, nil).For(client.Core)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Server: s, present: present, again: make(chan struct{}, 1)}
	r.source, err = New(Config{
		Client: core, Label: label, Group: "worker", Networks: []Network{{Name: "mgmt", Port: 7946}}, Interval: interval,
		Rand:    rand.New(rand.NewPCG(1, 2)),
		Clock:   boottimetest.Clock(0),
		Present: func() []roster.Member { return r.present },
		OnList: func(ms []roster.Member, _ boottime.Instant) {
			r.told++
			r.present = ms
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.source.Run(ctx, r.again)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

func (r *rig) expect(t *testing.T, when, want string) {
	t.Helper()
	synctest.Wait()
	if got := names(r.present); got != want {
		t.Errorf("%s: %s, want %s", when, got, want)
	}
}

func (r *rig) look() {
	select {
	case r.again <- struct{}{}:
	default:
	}
}

func add(s *k8stest.Server, from, to int) {
	for i := from; i <= to; i++ {
		s.Put(k8stest.Node(fmt.Sprintf("n%d", i), group, fmt.Sprintf("10.0.%d.%d", i/250, i%250)))
	}
}

func listOf(from, to int) []roster.Member {
	var ms []roster.Member
	for i := from; i <= to; i++ {
		ms = append(ms, member(fmt.Sprintf("n%d", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250)))
	}
	return ms
}

// An hour of a group that does not change: one list at the start, then one every five minutes, with a random part of a
// fifth, all from the cache.
func TestAnHourCostsAListEveryFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := k8stest.New(t)
		add(s, 1, 3)
		s.Put(k8stest.Node("x1", map[string]string{label: "other"}, "10.0.0.9"))
		r := start(t, s, 5*time.Minute, listOf(1, 3)...)
		time.Sleep(time.Hour)
		r.expect(t, "after an hour", "n1=10.0.0.1 n2=10.0.0.2 n3=10.0.0.3")
		lists := s.Counts()["list nodes"]
		if lists < 11 || lists > 15 || len(s.Counts()) != 1 {
			t.Errorf("requests in an hour: %v", s.Counts())
		}
		for _, q := range s.Requests() {
			if !strings.Contains(q.Query, "resourceVersion=0") {
				t.Errorf("asked for the truth without need: %s", q.Query)
			}
		}
	})
}

func TestNoIntervalIsOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := k8stest.New(t)
		add(s, 1, 3)
		r := start(t, s, 0, listOf(1, 3)...)
		time.Sleep(24 * time.Hour)
		if c := s.Counts(); c["list nodes"] != 1 {
			t.Errorf("requests in a day: %v", c)
		}
		add(s, 4, 4)
		r.look()
		time.Sleep(time.Minute)
		r.expect(t, "asked to look", names(listOf(1, 4)))
	})
}

// Guard: the interval grows with the group. A thousand nodes must not list a thousand Nodes each every
// five minutes.
func TestLargeGroupsLookRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := k8stest.New(t)
		add(s, 1, 600)
		r := start(t, s, 5*time.Minute, listOf(1, 3)...)
		time.Sleep(6 * time.Hour)
		if r.told == 0 || len(r.present) != 600 {
			t.Fatalf("%d members, told %d times", len(r.present), r.told)
		}
		// The first look reads the cache, and three pages of the present list.
		if c := s.Counts()["list nodes"]; c < 8 || c > 12 {
			t.Errorf("%d lists in six hours, want one an hour and the first four", c)
		}
	})
}

// Guard: a cached answer alone changes nothing. A cache that is behind would bring back removed members.
func TestOutdatedCacheChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := k8stest.New(t)
		add(s, 1, 3)
		s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Query().Get("resourceVersion") != "0" {
				return false
			}
			list := corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}}
			for _, m := range listOf(1, 9) {
				list.Items = append(list.Items, *k8stest.Node(m.Name, group, m.Addresses["mgmt"]))
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(list)
			return true
		})
		r := start(t, s, 5*time.Minute, listOf(1, 3)...)
		time.Sleep(time.Hour)
		r.expect(t, "with an outdated cache", names(listOf(1, 3)))
		if r.told == 0 {
			t.Error("the truth was not asked for")
		}
	})
}

func TestNodesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := k8stest.New(t)
		add(s, 1, 3)
		r := start(t, s, 5*time.Minute, listOf(1, 3)...)
		time.Sleep(time.Minute)
		add(s, 4, 4)
		time.Sleep(7 * time.Minute)
		r.expect(t, "one more", names(listOf(1, 4)))
		s.Delete("n4")
		time.Sleep(7 * time.Minute)
		r.expect(t, "one less", names(listOf(1, 3)))
		s.Update("n3", func(n *corev1.Node) { n.Annotations[AddressAnnotation+"mgmt"] = "10.0.0.33" })
		time.Sleep(7 * time.Minute)
		r.expect(t, "moved", "n1=10.0.0.1 n2=10.0.0.2 n3=10.0.0.33")
	})
}

// Guards: a list that removes nodes is believed only at the second look. One that removes most of them is never
// believed without a confirmation, and one that is corrected meanwhile is not believed at all.
func TestShrinkingListsAreDoubted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := k8stest.New(t)
		add(s, 1, 5)
		r := start(t, s, 5*time.Minute, listOf(1, 5)...)
		relabel := func(to string, nodes ...string) {
			for _, n := range nodes {
				s.Update(n, func(n *corev1.Node) { n.Labels = map[string]string{label: to} })
			}
			r.look()
		}
		time.Sleep(time.Minute)
		relabel("other", "n4")
		time.Sleep(20 * time.Second)
		r.expect(t, "at the first look", names(listOf(1, 5)))
		relabel("worker", "n4")
		time.Sleep(10 * time.Minute)
		r.expect(t, "put right", names(listOf(1, 5)))

		relabel("other", "n3", "n4", "n5")
		time.Sleep(time.Hour)
		r.expect(t, "most of them gone for an hour", names(listOf(1, 5)))
		s.Update("n1", func(n *corev1.Node) { n.Annotations[ConfirmAnnotation] = "0123456789abcdef" })
		time.Sleep(10 * time.Minute)
		r.expect(t, "another list confirmed", names(listOf(1, 5)))
		s.Update("n1", func(n *corev1.Node) { n.Annotations[ConfirmAnnotation] = Digest(listOf(1, 2)) })
		time.Sleep(10 * time.Minute)
		r.expect(t, "confirmed", names(listOf(1, 2)))

		relabel("other", "n1", "n2")
		time.Sleep(time.Hour)
		r.expect(t, "nobody left", names(listOf(1, 2)))
	})
}

// Guard: an outage changes nothing and makes no storm, and neither does a server that
// throttles.
func TestOutage(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(http.ResponseWriter)
		most   int
	}{
		{"throttles", func(w http.ResponseWriter) { k8stest.Throttle(w, 600, false) }, 7},
		{"fails", func(w http.ResponseWriter) {
			k8stest.Fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "no leader")
		}, 60},
		{"forbids", func(w http.ResponseWriter) {
			k8stest.Fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "no")
		}, 60},
		{"shows nothing", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}})
		}, 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := k8stest.New(t)
				add(s, 1, 3)
				r := start(t, s, 5*time.Minute, listOf(1, 3)...)
				time.Sleep(time.Minute)
				s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
					c.answer(w)
					return true
				})
				before := len(s.Requests())
				time.Sleep(time.Hour)
				if n := len(s.Requests()) - before; n == 0 || n > c.most {
					t.Errorf("%d requests in an hour, want 1..%d", n, c.most)
				}
				r.expect(t, "meanwhile", names(listOf(1, 3)))
				s.Intercept(nil)
				add(s, 4, 4)
				time.Sleep(20 * time.Minute)
				r.expect(t, "when it works again", names(listOf(1, 4)))
			})
		})
	}
}

// Guard: pauses between looks that are asked for grow.
func TestLooksThatAreAskedForMakeNoStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := k8stest.New(t)
		add(s, 1, 3)
		r := start(t, s, 5*time.Minute, listOf(1, 3)...)
		for range 3600 {
			r.look()
			time.Sleep(time.Second)
		}
		if n := s.Counts()["list nodes"]; n > 60 {
			t.Errorf("%d lists in an hour of asking every second", n)
		}
	})
}

func TestReadGoesThroughAllPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := k8stest.New(t)
		add(s, 1, 2*pageSize+1)
		r := start(t, s, 0)
		nodes, err := r.source.Read(t.Context(), false)
		if err != nil || len(nodes) != 2*pageSize+1 || nodes[0].Internal[0] != netip.MustParseAddr("10.0.0.1") {
			t.Errorf("%d nodes: %v", len(nodes), err)
		}
	})
}
