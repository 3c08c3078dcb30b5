package marks

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/k8stest"
)

const key = "fencing-agent.io/deaths"

// annotate runs an Annotation, in a bubble, and returns its log.
func annotate(t *testing.T, s *k8stest.Server, seed uint64) (*Annotation, *bytes.Buffer) {
	t.Helper()
	core, err := s.Client(t, nil).For(client.Core)
	if err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	a, err := NewAnnotation(Config{Client: core, Node: "n1", Logger: slog.New(slog.NewTextHandler(log, nil)), Rand: rand.New(rand.NewPCG(seed, 2))}, key)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return a, log
}

func served(t *testing.T) *k8stest.Server {
	s := k8stest.New(t)
	s.Put(k8stest.Node("n1", map[string]string{"theirs": "1"}))
	return s
}

// Guards: the annotation is written once, at a random moment of the given time. The newest wish counts, and an urgent
// wish does not wait for that moment.
func TestAnnotationIsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served(t)
		a, _ := annotate(t, s, 1)
		a.Want(text("old"), 5*time.Second)
		time.Sleep(time.Minute)
		expect(t, "before the Node was seen", s, "map[theirs:1] map[]")
		a.Seen(seen(s))
		synctest.Wait()
		expect(t, "at once", s, "map[theirs:1] map[]")
		a.Want(text("new"), 5*time.Second)
		time.Sleep(5 * time.Second)
		expect(t, "five seconds later", s, "map[theirs:1] map[fencing-agent.io/deaths:new]")
		a.Want(text("x"), 5*time.Second)
		synctest.Wait()
		a.Want(nil, 0)
		expect(t, "withdrawn", s, "map[theirs:1] map[]")
		time.Sleep(time.Hour)
		if c := s.Counts()["patch nodes"]; c != 2 {
			t.Errorf("%d patches, want 2", c)
		}
	})
}

// Guard: an annotation that somebody has emptied is removed: its readers cannot decode it, and would warn for ever.
func TestEmptiedAnnotationIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served(t)
		n := s.Get("n1")
		n.Annotations = map[string]string{key: ""}
		s.Put(n)
		a, _ := annotate(t, s, 1)
		a.Want(nil, 0)
		a.Seen(seen(s))
		expect(t, "at once", s, "map[theirs:1] map[]")
	})
}

// Guard: five hundred agents that write at the same moment would fill the API server's queues.
func TestAnnotationsOfManyAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served(t)
		began := time.Now()
		for i := range uint64(50) {
			a, _ := annotate(t, s, i)
			a.Seen(seen(s))
			a.Want(text("x"), 5*time.Second)
		}
		time.Sleep(5 * time.Second)
		early := 0
		for _, r := range s.Requests() {
			if r.At.Sub(began) < 2500*time.Millisecond {
				early++
			}
		}
		if all := len(s.Requests()); all != 50 || early < 15 || early > 35 {
			t.Errorf("%d of %d in the first half of the time", early, all)
		}
	})
}

// Guards: a server that throttles is asked again when it allows that. One that was unreachable is asked within 15 s
// after its return. One that forbids the annotation is asked at growing pauses, finally of five to ten minutes, and is
// logged once.
func TestAnnotationIsTriedAgain(t *testing.T) {
	for _, c := range []struct {
		name     string
		answer   func(http.ResponseWriter)
		requests int // approximate number in the hour until the annotation is accepted
		within   time.Duration
	}{
		{"throttled", func(w http.ResponseWriter) { k8stest.Throttle(w, 3, false) }, 0, 5 * time.Second},
		{"broken", func(w http.ResponseWriter) {
			k8stest.Fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "broken")
		}, 0, 15 * time.Second},
		{"forbidden", func(w http.ResponseWriter) {
			k8stest.Fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "a fencing-agent may change its own annotations only")
		}, 16, 10 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := served(t)
				a, log := annotate(t, s, 1)
				s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
					c.answer(w)
					return true
				})
				a.Seen(seen(s))
				a.Want(text("x"), 0)
				time.Sleep(time.Hour - time.Second)
				if n := len(s.Requests()); c.requests > 0 && (n < c.requests-3 || n > c.requests+3) {
					t.Errorf("%d requests in an hour, want about %d", n, c.requests)
				}
				if n := strings.Count(log.String(), "level=WARN"); n != 1 || strings.Contains(log.String(), "apply the manifests") != (c.name == "forbidden") {
					t.Errorf("%d lines: %s", n, log)
				}
				s.Intercept(nil)
				time.Sleep(c.within)
				expect(t, "at last", s, "map[theirs:1] map[fencing-agent.io/deaths:x]")
			})
		})
	}
}

// Guard: an API server that starts answers 403 until its policies are loaded, just when a control-plane node has died.
func TestAServerThatStartsForbids(t *testing.T) {
	forbid := func(w http.ResponseWriter, _ *http.Request) bool {
		k8stest.Fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "not yet ready to handle request")
		return true
	}
	synctest.Test(t, func(t *testing.T) {
		s := served(t)
		a, _ := annotate(t, s, 1)
		s.Intercept(forbid)
		a.Seen(seen(s))
		a.Want(text("x"), 0)
		time.Sleep(20 * time.Second)
		s.Intercept(nil)
		time.Sleep(20 * time.Second)
		expect(t, "20 s after it is ready", s, "map[theirs:1] map[fencing-agent.io/deaths:x]")
	})
	for _, within := range []time.Duration{0, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := served(t)
			a, _ := annotate(t, s, 1)
			s.Intercept(forbid)
			a.Seen(seen(s))
			a.Want(text("x"), 0)
			time.Sleep(33 * time.Minute)
			before := len(s.Requests())
			for range 20 { // a repetition by the watch is no reason to try again
				a.Seen(seen(s))
				time.Sleep(time.Second)
			}
			a.Want(text("x"), within) // nor is the same wish
			time.Sleep(within + time.Second)
			if n := len(s.Requests()) - before; n > 1 {
				t.Errorf("%d requests without a new wish", n)
			}
			s.Intercept(nil)
			a.Want(text("y"), within)
			time.Sleep(within + time.Second)
			expect(t, "a new wish", s, "map[theirs:1] map[fencing-agent.io/deaths:y]")
		})
	}
}

// Guards: an agent renews its report each minute, with another number, and an older policy refuses that for good. The
// server is asked at growing pauses, even if the agent has nothing to report at times. One line in the log names the
// policy, even if the server was unreachable before. A withdrawal is tried at once.
func TestWhatIsRenewedAndForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := served(t)
		a, log := annotate(t, s, 1)
		a.Seen(seen(s))
		s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			k8stest.Fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "away")
			return true
		})
		a.Renew(text("0"), 0)
		time.Sleep(time.Minute)
		s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			k8stest.Fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "own-node.fencing-agent.fencing-agent denied request")
			return true
		})
		before := len(s.Requests())
		for i := range 60 {
			if value := fmt.Sprint(i); i%7 == 6 {
				a.Renew(nil, time.Second)
			} else {
				a.Renew(&value, time.Second)
			}
			time.Sleep(time.Minute)
		}
		if n := len(s.Requests()) - before; n > 20 {
			t.Errorf("%d requests in an hour", n)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 2 || !strings.Contains(log.String(), "Update both") {
			t.Errorf("%d lines: %s", n, log)
		}
		s.Intercept(nil)
		time.Sleep(10 * time.Minute)
		expect(t, "the policy was updated", s, "map[theirs:1] map[fencing-agent.io/deaths:59]")
		s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			k8stest.Fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "not yet ready to handle request")
			return true
		})
		a.Renew(text("60"), 0)
		time.Sleep(33 * time.Minute)
		s.Intercept(nil)
		a.Renew(nil, 0)
		time.Sleep(time.Second)
		expect(t, "withdrawn", s, "map[theirs:1] map[]")
	})
}
