package leaseregister

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
)

// registerAt talks to a server with the given answers.
func registerAt(t *testing.T, timeout time.Duration, h http.HandlerFunc) (*Register, chan leasequorum.Completion) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := client.NewFor(&rest.Config{Host: s.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ends := make(chan leasequorum.Completion, 1)
	r, err := New(Config{Client: c, Namespace: "ns", Name: "l", Timeout: timeout, Clock: boottime.Now, OnCompletion: func(c leasequorum.Completion) { ends <- c }})
	if err != nil {
		t.Fatal(err)
	}
	return r, ends
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func failure(status int, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(status), Reason: reason,
	}
}

func leaseWith(text string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "l", Namespace: "ns", UID: "u", ResourceVersion: "5", Annotations: map[string]string{Annotation: text}},
	}
}

// The cases list what each answer means for each operation. No request is repeated.
func TestOutcomes(t *testing.T) {
	base := leasequorum.Version{UID: "u", Resource: "4"}
	for _, c := range []struct {
		name   string
		op     leasequorum.Op
		status int
		body   any
		want   leasequorum.Outcome
	}{
		{"read", leasequorum.Op{Kind: leasequorum.Read}, 200, leaseWith(golden), leasequorum.Done},
		{"read nothing", leasequorum.Op{Kind: leasequorum.Read}, 404, failure(404, metav1.StatusReasonNotFound), leasequorum.Absent},
		{"read a Lease of somebody", leasequorum.Op{Kind: leasequorum.Read}, 200, leaseWith(""), leasequorum.Unknown},
		{"read without right", leasequorum.Op{Kind: leasequorum.Read}, 403, failure(403, metav1.StatusReasonForbidden), leasequorum.Unknown},
		{"read a broken server", leasequorum.Op{Kind: leasequorum.Read}, 500, failure(500, metav1.StatusReasonInternalError), leasequorum.Unknown},
		{"create", leasequorum.Op{Kind: leasequorum.Create, Record: sample()}, 201, leaseWith(golden), leasequorum.Done},
		{"create second", leasequorum.Op{Kind: leasequorum.Create, Record: sample()}, 409, failure(409, metav1.StatusReasonAlreadyExists), leasequorum.Conflict},
		{"create without namespace", leasequorum.Op{Kind: leasequorum.Create, Record: sample()}, 404, failure(404, metav1.StatusReasonNotFound), leasequorum.Unknown},
		{"write", leasequorum.Op{Kind: leasequorum.Write, Base: base, Record: sample()}, 200, leaseWith(golden), leasequorum.Done},
		{"write that another ends up as", leasequorum.Op{Kind: leasequorum.Write, Base: base}, 200, leaseWith(golden), leasequorum.Unknown},
		{"write second", leasequorum.Op{Kind: leasequorum.Write, Base: base, Record: sample()}, 409, failure(409, metav1.StatusReasonConflict), leasequorum.Conflict},
		{"write to nothing", leasequorum.Op{Kind: leasequorum.Write, Base: base, Record: sample()}, 404, failure(404, metav1.StatusReasonNotFound), leasequorum.Absent},
		{"write while busy", leasequorum.Op{Kind: leasequorum.Write, Base: base, Record: sample()}, 429, failure(429, metav1.StatusReasonTooManyRequests), leasequorum.Unknown},
		{"write without version", leasequorum.Op{Kind: leasequorum.Write, Record: sample()}, 200, leaseWith(golden), leasequorum.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			var sent string
			r, _ := registerAt(t, 20*time.Second, func(w http.ResponseWriter, q *http.Request) {
				asked++
				text, _ := io.ReadAll(q.Body)
				sent = string(text)
				if c.status == 429 {
					w.Header().Set("Retry-After", "1")
				}
				answer(w, c.status, c.body)
			})
			c.op.ID = 7
			got := r.Do(t.Context(), c.op)
			if got.Outcome != c.want || got.ID != 7 || (got.Outcome == leasequorum.Unknown) != (got.Err != nil) || got.Ended < got.Started {
				t.Errorf("%+v", got)
			}
			if got.Outcome == leasequorum.Done && (got.Version != leasequorum.Version{UID: "u", Resource: "5"} || got.Record.Instance != 3) {
				t.Errorf("%+v", got)
			}
			if asked > 1 {
				t.Errorf("%d requests", asked)
			}
			if c.op.Kind == leasequorum.Write && asked == 1 && !strings.Contains(sent, "u") {
				t.Errorf("sent %q", sent)
			}
		})
	}
}

// If a server does not answer, the operation ends with the timeout, and only Run's own goroutine waits.
func TestSilentServer(t *testing.T) {
	release := make(chan struct{})
	r, ends := registerAt(t, 50*time.Millisecond, func(_ http.ResponseWriter, q *http.Request) {
		select {
		case <-q.Context().Done():
		case <-release:
		}
	})
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	if !r.Submit(leasequorum.Op{ID: 1, Kind: leasequorum.Read}) {
		t.Fatal("no room")
	}
	select {
	case c := <-ends:
		if c.Outcome != leasequorum.Unknown || c.ID != 1 {
			t.Errorf("%+v", c)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("no end within 30s")
	}
	cancel()
	<-done
}
