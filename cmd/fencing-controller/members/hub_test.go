package members

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/fencing-agent/fencing-agent/k8s/memberbook"
)

// Guard: if an agent has moved to another replica and reported other addresses to it, those addresses count. Otherwise
// the replicas would overwrite each other's lists, each with a higher number, for as long as both run.
func TestWhoFollowsNoMoreDoesNotOutweighTheBook(t *testing.T) {
	old, moved := memberbook.Addresses{"a": "10.0.0.1"}, memberbook.Addresses{"a": "10.0.0.9"}
	h := NewHub()
	for _, n := range []string{"n1", "n2"} {
		h.Seen(n, there("g", nil))
	}
	h.Booked("g", book(5, "n1", "n2"))
	h.Synced()
	s, _, _ := h.follow("n1", "g")
	h.reported(s, old, 5)
	step := func() memberbook.Outcome {
		f, b, _ := h.facts("g")
		f.Wall = 1
		return memberbook.Step(b, f, new(memberbook.Doubt))
	}
	if o := step(); o.Write != nil {
		t.Fatalf("%+v is written, and nothing has changed", o.Write)
	}
	h.leave(s)
	b := book(6, "n1", "n2")
	b.Members[0].Addresses, b.Reports["n1"] = moved, moved
	h.Booked("g", b) // from the other replica
	if o := step(); o.Write != nil {
		t.Errorf("what was told before is written over it: %+v", o.Write)
	}
	h.Booked("g", nil) // the book is lost: then the earlier report is better than none
	f, _, _ := h.facts("g")
	f.Reports["n2"] = memberbook.Addresses{"a": "10.0.0.2"}
	if o := memberbook.Step(nil, f, new(memberbook.Doubt)); o.Write == nil || len(o.Write.Members) != 2 || o.Write.Epoch <= 6 {
		t.Errorf("%+v", o)
	}
	if s, _, _ = h.follow("n1", "g"); s == nil {
		t.Fatal("it is not let in")
	}
	if f, _, _ := h.facts("g"); len(f.Reports) != 0 {
		t.Errorf("what was told on an earlier stream counts as told on this one: %+v", f.Reports)
	}
	late, _, _ := h.follow("n1", "g")
	h.reported(late, moved, 6)
	h.reported(s, old, 5) // from a stream that has ended
	if f, _, _ := h.facts("g"); f.Reports["n1"]["a"] != moved["a"] {
		t.Errorf("%+v", f.Reports)
	}
}

// Guard: callers without end and an API server that does not answer cause few requests at a time, and no caller waits
// for ever.
func TestFewTokensAreCheckedAtOneTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		s := &Server{Hub: NewHub(), Logger: slog.New(slog.DiscardHandler), Review: func(ctx context.Context, _ string) (string, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			<-ctx.Done()
			return "", ctx.Err()
		}}
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer x"))
		ended := make(chan error)
		for range 100 {
			go func() {
				_, err := s.caller(ctx)
				ended <- err
			}()
		}
		began := time.Now()
		for range 100 {
			if err := <-ended; status.Code(err) != codes.Unavailable {
				t.Error(err)
			}
		}
		if most.Load() > mostReviews || time.Since(began) > 2*firstReport {
			t.Errorf("%d at one time, for %v", most.Load(), time.Since(began))
		}
	})
}

// A book that a person has damaged and then deleted is written again.
func TestSpoiledBookIsDeleted(t *testing.T) {
	h := NewHub()
	h.Booked("a_b", &memberbook.Book{Group: "a_b", Epoch: 5, Members: book(5, "n1").Members})
	h.Booked("g", book(5, "n1", "n2"))
	h.Synced()
	h.Lost(BookName("a_b"))
	if _, b, _ := h.facts("a_b"); b != nil {
		t.Errorf("%+v", b)
	}
	if f, _, _ := h.facts("a_b"); f.Floor != 5 {
		t.Errorf("the next list has a number over %d", f.Floor)
	}
	if _, b, _ := h.facts("g"); b == nil {
		t.Error("another group's book is gone")
	}
}

// No watch sees a book without its label, so reading it is an error.
func TestBookWithoutItsLabel(t *testing.T) {
	text, err := encode(book(5, "n1", "n2"))
	if err != nil {
		t.Fatal(err)
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: BookName("g"), Labels: map[string]string{BookLabel: "true"}}, Data: map[string]string{bookKey: text}}
	read := func() error {
		c := fake.NewClientBuilder().WithObjects(m).Build()
		_, _, err := (&Cluster{Reader: c, Namespace: "ns"}).Read(t.Context(), "g")
		return err
	}
	if err := read(); err != nil {
		t.Error(err)
	}
	if m.Labels = nil; read() == nil {
		t.Error("it is read")
	}
}

// Guard: a dead stream does not write the book while the agent reports something else to another replica. When the
// agent reports to this replica again, the report counts.
func TestDeadStreamDoesNotWriteTheBook(t *testing.T) {
	old, moved := memberbook.Addresses{"a": "10.0.0.1"}, memberbook.Addresses{"a": "10.0.0.9"}
	h := NewHub()
	for _, n := range []string{"n1", "n2"} {
		h.Seen(n, there("g", nil))
	}
	h.Booked("g", book(5, "n1", "n2"))
	h.Synced()
	s, _, _ := h.follow("n1", "g")
	h.reported(s, old, 5)
	b := book(6, "n1", "n2")
	b.Members[0].Addresses, b.Reports["n1"] = moved, moved
	h.Booked("g", b) // from the replica to which the agent has moved
	f, now, _ := h.facts("g")
	f.Wall = 1
	if o := memberbook.Step(now, f, new(memberbook.Doubt)); o.Write != nil {
		t.Errorf("a dead stream writes: %+v", o.Write)
	}
	clear(h.dirty)
	h.reported(s, old, 5) // the stream is alive: the agent reports again
	if f, _, _ := h.facts("g"); f.Reports["n1"]["a"] != "10.0.0.1" || !h.dirty["g"] {
		t.Errorf("%+v, %v", f.Reports, h.dirty)
	}
	other := book(7, "n1", "n2", "n3")
	h.Booked("g", other) // agrees with it
	h.Booked("g", book(8, "n1", "n2"))
	if f, _, _ := h.facts("g"); f.Reports["n1"] == nil {
		t.Error("a change elsewhere silences it")
	}
}

// If a group has used numbers of its own, the controller's numbers start above them when most of the agents that follow
// report this.
func TestListsGoOnAboveWhatTheAgentsHave(t *testing.T) {
	h := NewHub()
	for _, n := range []string{"n1", "n2", "n3"} {
		h.Seen(n, there("g", nil))
	}
	b := book(5, "n1", "n2", "n3")
	h.Booked("g", b)
	h.Synced()
	step := func() *memberbook.Book {
		f, b, _ := h.facts("g")
		f.Wall = 1
		return memberbook.Step(b, f, new(memberbook.Doubt)).Write
	}
	for i, n := range []string{"n1", "n2", "n3"} {
		s, _, _ := h.follow(n, "g")
		have := uint64(5)
		if clear(h.dirty); i > 0 {
			have = 7000
		}
		h.reported(s, b.Reports[n], have)
		if w := step(); i < 2 && w != nil || i == 2 && (w == nil || w.Epoch != 7001) || i > 0 && !h.dirty["g"] {
			t.Errorf("%s: %+v, %v", n, w, h.dirty)
		}
	}
}
