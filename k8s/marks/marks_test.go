package marks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/k8stest"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

func start(t *testing.T) (*k8stest.Server, *Writer) {
	t.Helper()
	s := k8stest.New(t)
	s.Put(k8stest.Node("n1", map[string]string{"theirs": "1"}))
	core, err := s.Client(t, nil).For(client.Core)
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Config{Client: core, Node: "n1", Rand: rand.New(rand.NewPCG(1, 2))})
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
	return s, w
}

func seen(s *k8stest.Server) ownnode.State {
	n := s.Get("n1")
	return ownnode.State{Known: true, Exists: true, UID: string(n.UID), Labels: n.Labels, Annotations: n.Annotations}
}

func text(s string) *string { return &s }

func expect(t *testing.T, when string, s *k8stest.Server, want string) {
	t.Helper()
	synctest.Wait()
	n := s.Get("n1")
	if got := fmt.Sprint(n.Labels, n.Annotations); got != want {
		t.Errorf("%s: %s, want %s", when, got, want)
	}
}

// Guards: nothing is written before the Node was seen; nor is anything written that the Node already has. Marks of
// others are not changed.
func TestMarksAreWrittenWhereTheyDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := start(t)
		w.Want(Wish{LabelEnabled: text("")}, Wish{"fencing-agent.io/address.data": text("10.1.0.1")})
		time.Sleep(time.Hour)
		expect(t, "before the Node was seen", s, "map[theirs:1] map[]")
		w.Seen(seen(s))
		want := "map[node-manager.deckhouse.io/fencing-enabled: theirs:1] map[fencing-agent.io/address.data:10.1.0.1]"
		expect(t, "armed", s, want)
		w.Want(Wish{LabelEnabled: text("")}, nil)
		w.Seen(seen(s))
		time.Sleep(time.Hour)
		if c := s.Counts()["patch nodes"]; c != 1 {
			t.Errorf("%d patches, want 1", c)
		}
		s.Update("n1", func(n *corev1.Node) { n.Annotations["fencing-agent.io/address.data"] = "x" })
		w.Seen(seen(s))
		expect(t, "put right", s, want)
		w.Want(Wish{LabelEnabled: nil}, nil)
		expect(t, "disarmed", s, "map[theirs:1] map[fencing-agent.io/address.data:10.1.0.1]")
		w.Seen(ownnode.State{Known: true})
		w.Want(Wish{LabelEnabled: text("")}, nil)
		time.Sleep(time.Hour)
		if c := s.Counts()["patch nodes"]; c != 3 {
			t.Errorf("%d patches, want 3: there is no Node any more", c)
		}
	})
}

// Guard: only the newest wishes count, and a server in trouble is left alone.
func TestOutageEndsWithTheNewestWish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := start(t)
		s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			k8stest.Fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "no")
			return true
		})
		w.Seen(seen(s))
		for i := range 3600 {
			w.Want(Wish{"l": text(fmt.Sprint(i))}, nil)
			time.Sleep(time.Second)
		}
		if n := len(s.Requests()); n > 60 {
			t.Errorf("%d requests in an hour of being refused", n)
		}
		s.Intercept(nil)
		time.Sleep(2 * longestPause)
		expect(t, "at the end", s, "map[l:3599 theirs:1] map[]")
	})
}

// Guard: forbidden Events do not keep the labels from being written.
func TestForbiddenEventsHoldNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := start(t)
		s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			_, resource := client.Describe(r)
			if resource == "events" {
				k8stest.Fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "no")
			}
			return resource == "events"
		})
		w.Seen(seen(s))
		for i := range 5 {
			w.Event(QuorumLost, "x")
			w.Want(Wish{"l": text(fmt.Sprint(i))}, nil)
			expect(t, "at once", s, fmt.Sprintf("map[l:%d theirs:1] map[]", i))
		}
		if d := testutil.ToFloat64(w.dropped); d != 5 {
			t.Errorf("%v events dropped, want 5", d)
		}
	})
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := start(t)
		w.Seen(seen(s))
		w.Event(WatchdogArmed, "armed with 30s")
		w.Event(QuorumLost, strings.Repeat("x", 5000))
		synctest.Wait()
		es := s.Events()
		if len(es) != 2 {
			t.Fatalf("%d events", len(es))
		}
		a, q := es[0], es[1]
		if a.Reason != "WatchdogArmed" || a.Type != "Normal" || a.Message != "armed with 30s" || a.InvolvedObject.Name != "n1" || a.InvolvedObject.UID != s.Get("n1").UID ||
			a.Namespace != "default" || q.Type != "Warning" || len(q.Message) > 1024 || a.Name == q.Name {
			t.Errorf("%+v\n%+v", a, q)
		}
	})
}

// Guards: the rate of Events, the length of the queue, and the age up to which they are sent.
func TestEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := start(t)
		w.Seen(seen(s))
		for i := range 600 {
			w.Event(QuorumLost, fmt.Sprint(i))
			time.Sleep(time.Second)
		}
		most := eventBurst + int(10*time.Minute/eventInterval)
		if n := len(s.Events()); n < eventBurst || n > most {
			t.Errorf("%d events in ten minutes, want %d..%d", n, eventBurst, most)
		}
		time.Sleep(queueLength * eventInterval)
		es := s.Events()
		if last := es[len(es)-1]; last.Message != "599" {
			t.Errorf("the last event told is %s", last.Message)
		}
		if d := testutil.ToFloat64(w.dropped); int(d)+len(es) != 600 {
			t.Errorf("%v dropped, %d told, of 600", d, len(es))
		}

		before := len(s.Events())
		s.Refuse(true)
		w.Event(TieBreakWon, "old")
		time.Sleep(eventAge)
		w.Event(TieBreakLost, "young")
		time.Sleep(time.Minute)
		s.Refuse(false)
		time.Sleep(2 * longestPause)
		es = s.Events()
		if len(es) != before+1 || es[before].Message != "young" {
			t.Errorf("after the outage %d events are told", len(es)-before)
		}
	})
}
