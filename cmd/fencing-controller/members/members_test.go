package members

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/k8s/memberbook"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

func book(epoch uint64, names ...string) *memberbook.Book {
	b := &memberbook.Book{Group: "g", Epoch: epoch, Reports: map[string]memberbook.Addresses{}}
	for i, n := range names {
		a := memberbook.Addresses{"a": "10.0.0." + string(rune('1'+i))}
		b.Members = append(b.Members, roster.Member{Name: n, Addresses: a})
		b.Reports[n] = a
	}
	return b
}

func there(group string, annotations map[string]string) Node {
	return Node{Group: group, State: ownnode.State{Known: true, Exists: true, UID: "u", Annotations: annotations}}
}

// Guard: the node comes from a claim of the token, which must be valid for this audience and belong to an agent's
// account.
func TestTokensOfAgentsOnly(t *testing.T) {
	good := func() *authenticationv1.TokenReviewStatus {
		return &authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{"fencing-controller"}, User: authenticationv1.UserInfo{
			Username: "system:serviceaccount:agents:a", Extra: map[string]authenticationv1.ExtraValue{nodeClaim: {"n1"}},
		}}
	}
	agents := []string{"other/b", "agents/a"}
	if node, err := judgeToken(good(), "fencing-controller", agents); err != nil || node != "n1" {
		t.Error(node, err)
	}
	for name, spoil := range map[string]func(*authenticationv1.TokenReviewStatus){
		"not authenticated":          func(s *authenticationv1.TokenReviewStatus) { s.Authenticated = false },
		"another audience":           func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{"https://kubernetes"} },
		"no audience":                func(s *authenticationv1.TokenReviewStatus) { s.Audiences = nil },
		"another account":            func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "system:serviceaccount:agents:b" },
		"a person of that name":      func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "agents/a" },
		"bound to no node":           func(s *authenticationv1.TokenReviewStatus) { s.User.Extra = nil },
		"bound to a node of no name": func(s *authenticationv1.TokenReviewStatus) { s.User.Extra[nodeClaim] = []string{""} },
		"bound to two":               func(s *authenticationv1.TokenReviewStatus) { s.User.Extra[nodeClaim] = []string{"n1", "n2"} },
	} {
		s := good()
		spoil(s)
		if node, err := judgeToken(s, "fencing-controller", agents); !errors.Is(err, ErrRefused) || node != "" {
			t.Errorf("%s: %q, %v", name, node, err)
		}
	}
}

// Guard: a node follows only its own group. A node that was removed is told so. The later stream of a node ends the
// earlier one.
func TestWhoMayFollow(t *testing.T) {
	h := NewHub()
	h.Seen("n1", there("g", nil))
	if _, synced, _ := h.follow("n1", "g"); synced {
		t.Error("served before the Nodes were read")
	}
	b := book(5, "n1", "n2")
	b.Former = []string{"n3"}
	h.Booked("g", b)
	h.Synced()
	h.Seen("n4", there("h", nil))
	for _, c := range []struct {
		node, group string
		ok          bool
	}{{"n1", "g", true}, {"n2", "g", true}, {"n3", "g", true}, {"n4", "g", false}, {"n4", "h", true}, {"n1", "h", false}, {"n9", "g", false}, {"n1", "", false}} {
		if _, _, ok := h.follow(c.node, c.group); ok != c.ok {
			t.Errorf("%+v: %v", c, ok)
		}
	}
	first, _, _ := h.follow("n1", "g")
	second, _, _ := h.follow("n1", "g")
	select {
	case <-first.over:
	default:
		t.Error("two streams of one node")
	}
	h.leave(first) // late
	if following, _, _ := h.Count(); following["g"] != 3 {
		t.Errorf("%v follow", following)
	}
	h.leave(second)
}

func TestCodec(t *testing.T) {
	b := book(7, "n1", "n2")
	b.Former = []string{"n0"}
	text, err := encode(b)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decode("g", text); err != nil || !reflect.DeepEqual(got, b) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "{}", strings.Replace(text, `"version": 1`, `"version": 2`, 1), strings.Replace(text, `"n2"`, `"n1"`, 1), strings.Replace(text, `"epoch": 7`, `"epoch": 0`, 1), strings.Replace(text, `"epoch": 7`, `"epoch": 17640000000`, 1), strings.Replace(text, `"epoch": 7`, `"epoch": 18446744073709551615`, 1), strings.Replace(text, "10.0.0.1", "nowhere", 2), text + "x"} {
		if _, err := decode("g", bad); err == nil && !strings.HasSuffix(bad, "x") {
			t.Errorf("taken: %s", bad)
		}
	}
	if _, err := decode("h", text); err == nil {
		t.Error("another group's book is taken")
	}
	names := map[string]bool{}
	for _, g := range []string{"worker", "Worker", "a_b", "a-b", "A_b"} {
		names[BookName(g)] = true
	}
	if len(names) != 5 || BookName("worker") != "fencing-members-worker" {
		t.Errorf("%v", names)
	}
}

func FuzzDecode(f *testing.F) {
	text, _ := encode(book(7, "n1", "n2"))
	f.Add(text)
	f.Fuzz(func(t *testing.T, text string) {
		b, err := decodeAny(text)
		if err != nil {
			return
		}
		again, err := encode(b)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := decodeAny(again); err != nil || c.Epoch != b.Epoch || len(c.Members) != len(b.Members) || !maps.EqualFunc(c.Reports, b.Reports, maps.Equal) {
			t.Fatal(err)
		}
	})
}

// pipe is a stream without a network.
type pipe struct {
	grpc.ServerStream
	ctx     context.Context
	reports chan *fencingv1.MembersReport
	updates chan *fencingv1.MembersUpdate
}

func (p *pipe) Context() context.Context { return p.ctx }
func (p *pipe) Send(u *fencingv1.MembersUpdate) error {
	select {
	case p.updates <- u:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

func (p *pipe) Recv() (*fencingv1.MembersReport, error) {
	select {
	case r := <-p.reports:
		return r, nil
	case <-p.ctx.Done():
		return nil, p.ctx.Err()
	}
}

func call(t *testing.T, h *Hub, node string, review error) (*pipe, chan error) {
	ctx, cancel := context.WithTimeout(metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer x")), 30*time.Second)
	t.Cleanup(cancel)
	p := &pipe{ctx: ctx, reports: make(chan *fencingv1.MembersReport, 1), updates: make(chan *fencingv1.MembersUpdate, 16)}
	s := &Server{Hub: h, Logger: slog.New(slog.DiscardHandler), Review: func(context.Context, string) (string, error) { return node, review }}
	ended := make(chan error, 1)
	go func() { ended <- s.Follow(p) }()
	return p, ended
}

// An agent receives its group's list and its Node, nothing else, and each change once.
func TestFollow(t *testing.T) {
	h := NewHub()
	h.Seen("n1", there("g", map[string]string{"off": "", "secret": "s"}))
	h.Seen("n2", there("g", map[string]string{"off": "n2"}))
	h.Booked("g", book(5, "n1", "n2"))
	h.Booked("h", book(9, "m1"))
	h.Synced()
	p, _ := call(t, h, "n1", nil)
	p.reports <- &fencingv1.MembersReport{Group: "g", Addresses: map[string]string{"a": "10.0.0.1"}, Annotations: []string{"off"}}
	u := <-p.updates
	if u.GetList().GetEpoch() != 5 || u.GetList().GetGroup() != "g" || len(u.GetList().GetMembers()) != 2 || !maps.Equal(u.GetNode().GetAnnotations(), map[string]string{"off": ""}) {
		t.Errorf("%v", u)
	}
	h.Seen("n2", there("g", nil)) // concerns no agent here
	h.Seen("n1", there("g", map[string]string{"secret": "t"}))
	if u := <-p.updates; u.GetList() != nil || u.GetNode() == nil || len(u.GetNode().GetAnnotations()) != 0 {
		t.Errorf("%v", u)
	}
	n := there("g", map[string]string{"secret": "t"})
	n.State.Version = 7
	h.Seen("n1", n) // sent within a heartbeat: an agent may have known a later version than the one before
	if u := <-p.updates; u.GetNode().GetVersion() != 7 {
		t.Errorf("%v", u)
	}
	h.Booked("g", book(6, "n1", "n2", "n3"))
	if u := <-p.updates; u.GetList().GetEpoch() != 6 || u.GetNode() != nil {
		t.Errorf("%v", u)
	}
	h.Gone("n1", ownnode.State{UID: "u", Version: 77})
	if u := <-p.updates; u.GetNode() == nil || u.GetNode().GetExists() || u.GetNode().GetVersion() != 77 || u.GetNode().GetUid() != "u" {
		t.Errorf("%v", u)
	}
}

// Guard: an agent that has known its Node hears that it was deleted, also from a replica that has never seen the Node,
// but not from a replica that has merely not seen the Node yet.
func TestNodeThatWentWhileNobodyWasFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub()
		h.Booked("g", book(5, "n1", "n2"))
		h.Synced()
		var away, gone atomic.Bool
		var asked atomic.Int64
		away.Store(true)
		ctx, cancel := context.WithCancel(metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer x")))
		p := &pipe{ctx: ctx, reports: make(chan *fencingv1.MembersReport, 1), updates: make(chan *fencingv1.MembersUpdate, 16)}
		s := &Server{
			Hub: h, Logger: slog.New(slog.DiscardHandler), Review: func(context.Context, string) (string, error) { return "n1", nil },
			Exists: func(context.Context, string) (bool, error) {
				if asked.Add(1); away.Load() {
					return true, errors.New("away")
				}
				return !gone.Load(), nil
			},
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Follow(p) }()
		p.reports <- &fencingv1.MembersReport{Group: "g", Addresses: map[string]string{"a": "10.0.0.1"}, NodeUid: "u"}
		if u := <-p.updates; u.GetNode() != nil {
			t.Errorf("told without knowing: %v", u)
		}
		away.Store(false)
		if u := <-p.updates; u.GetNode() != nil || asked.Load() != 2 {
			t.Errorf("%v after %d questions", u, asked.Load())
		}
		gone.Store(true)
		if u := <-p.updates; u.GetNode() == nil || u.GetNode().GetExists() || u.GetNode().GetUid() != "u" || asked.Load() != 3 {
			t.Errorf("%v after %d questions", u, asked.Load())
		}
		if u := <-p.updates; u.GetNode() != nil || asked.Load() != 3 {
			t.Errorf("%v after %d questions", u, asked.Load())
		}
		h.Seen("n1", there("g", nil)) // its kubelet has created it again
		if u := <-p.updates; !u.GetNode().GetExists() {
			t.Errorf("%v", u)
		}
		cancel()
		<-ended
	})
}

func TestFollowIsRefused(t *testing.T) {
	h := NewHub()
	h.Seen("n1", there("g", nil))
	h.Synced()
	good := func() *fencingv1.MembersReport {
		return &fencingv1.MembersReport{Group: "g", Addresses: map[string]string{"a": "10.0.0.1"}}
	}
	for name, c := range map[string]struct {
		node   string
		review error
		report func(*fencingv1.MembersReport)
		want   codes.Code
	}{
		"a token that is none": {review: ErrRefused, want: codes.Unauthenticated},
		"no answer":            {review: errors.New("away"), want: codes.Unavailable},
		"no node":              {want: codes.Unauthenticated},
		"another group":        {node: "n1", report: func(r *fencingv1.MembersReport) { r.Group = "h" }, want: codes.PermissionDenied},
		"no address":           {node: "n1", report: func(r *fencingv1.MembersReport) { r.Addresses["a"] = "here" }, want: codes.InvalidArgument},
		"no network":           {node: "n1", report: func(r *fencingv1.MembersReport) { r.Addresses[""] = "10.0.0.2" }, want: codes.InvalidArgument},
		"too much":             {node: "n1", report: func(r *fencingv1.MembersReport) { r.Annotations = make([]string, maxKeys+1) }, want: codes.InvalidArgument},
	} {
		p, ended := call(t, h, c.node, c.review)
		r := good()
		if c.report != nil {
			c.report(r)
		}
		p.reports <- r
		if err := <-ended; status.Code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Guard: a version that is not a number within range is ignored. Taken as the highest number, it would cause every
// later version to be refused.
func TestVersionsOfNodes(t *testing.T) {
	for text, want := range map[string]uint64{"": 0, "7": 7, "x": 0, "-1": 0, "18446744073709551615": 1<<64 - 1, "18446744073709551616": 0, strings.Repeat("9", 5000): 0} {
		if got := stateOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{ResourceVersion: text}}).Version; got != want {
			t.Errorf("%.30q is version %d, want %d", text, got, want)
		}
	}
}
