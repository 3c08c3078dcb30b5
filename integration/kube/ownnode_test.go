package kube

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	flow "k8s.io/api/flowcontrol/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
	agentclient "github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

const (
	agentNamespace = "kube-fencing"
	disable        = "node-manager.deckhouse.io/fencing-disable"
)

// agentUser is a separate service account for one test, so that its requests can be recognized.
type agentUser struct {
	plane *controlplane.ControlPlane
	admin *kubernetes.Clientset
	name  string // its name in the audit log
	token string
}

// newAgentUser creates a service account with these rights on nodes; none: no rights at all.
func newAgentUser(t *testing.T, p *controlplane.ControlPlane, account string, verbs ...string) *agentUser {
	t.Helper()
	u := &agentUser{plane: p, admin: client(t, p.Admin()), name: "system:serviceaccount:" + agentNamespace + ":" + account}
	ctx := t.Context()
	spaces := u.admin.CoreV1().Namespaces()
	if _, err := spaces.Get(ctx, agentNamespace, meta.GetOptions{}); err != nil {
		namespace(t, p, agentNamespace)
	}
	if _, err := u.admin.CoreV1().ServiceAccounts(agentNamespace).Create(ctx,
		&core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: account}}, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(verbs) > 0 {
		u.grant(t, account, verbs...)
	}
	var err error
	if u.token, err = p.ServiceAccountToken(ctx, agentNamespace, account, ""); err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *agentUser) grant(t *testing.T, account string, verbs ...string) {
	t.Helper()
	role := &rbac.ClusterRole{
		ObjectMeta: meta.ObjectMeta{Name: "test:" + account},
		Rules:      []rbac.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: verbs}},
	}
	if _, err := u.admin.RbacV1().ClusterRoles().Create(t.Context(), role, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbac.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta,
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbac.Subject{{Kind: rbac.ServiceAccountKind, Namespace: agentNamespace, Name: account}},
	}
	if _, err := u.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// count returns the number of requests with this verb about nodes that the server has answered with the code; 0 means
// any code.
func (u *agentUser) count(t *testing.T, verb string, code int) int {
	t.Helper()
	requests, err := u.plane.Requests(func(r controlplane.Request) bool {
		return r.User.Name == u.name && r.Verb == verb && r.Object.Resource == "nodes" && (code == 0 || r.Response.Code == code)
	})
	if err != nil {
		t.Fatal(err)
	}
	return len(requests)
}

// followed is the state of one Node as last reported by a watcher.
type followed struct {
	mu    sync.Mutex
	state ownnode.State
}

func (f *followed) get() ownnode.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

func (f *followed) signals() ownnode.Signals {
	return ownnode.Rules{Disable: []string{disable}}.Judge(f.get())
}

// follow runs a watcher of the Node, through the address, until the test ends.
func (u *agentUser) follow(t *testing.T, address, node string) *followed {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := u.plane.WriteKubeconfig(path, address, u.token); err != nil {
		t.Fatal(err)
	}
	c, err := agentclient.New(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := c.For(agentclient.Core)
	if err != nil {
		t.Fatal(err)
	}
	f := &followed{}
	w, err := ownnode.New(ownnode.Config{Client: nodes, Node: node, OnState: func(s ownnode.State) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.state = s
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return f
}

// newNode creates a Node, which is deleted at the end.
func newNode(t *testing.T, admin *kubernetes.Clientset, node *core.Node) {
	t.Helper()
	if _, err := admin.CoreV1().Nodes().Create(t.Context(), node, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // a test that deletes its Node makes this fail
		_ = admin.CoreV1().Nodes().Delete(context.Background(), node.Name, meta.DeleteOptions{})
	})
}

func plainNode(name string) *core.Node { return &core.Node{ObjectMeta: meta.ObjectMeta{Name: name}} }

// patch changes a Node by a merge patch.
func (u *agentUser) patch(t *testing.T, node, patch string) {
	t.Helper()
	if _, err := u.admin.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(patch), meta.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func annotate(key string, present bool) string {
	value := "null"
	if present {
		value = `""`
	}
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, value)
}

// A real Node goes through everything that disarms an agent, and all of it takes one list and one watch.
func TestOwnNodeDisarms(t *testing.T) {
	p := plane(t)
	u := newAgentUser(t, p, "life", "list", "watch")
	n := plainNode("life-1")
	n.Finalizers = []string{"example.com/wait"} // so that its deletion takes time
	newNode(t, u.admin, n)
	newNode(t, u.admin, plainNode("life-2"))
	f := u.follow(t, p.URL(), n.Name)
	await(t, "the Node is known", func() bool { s := f.get(); return s.Known && s.Exists })
	u.patch(t, "life-2", annotate(disable, true))
	u.patch(t, n.Name, annotate(disable, true))
	await(t, "the annotation is maintenance", func() bool { return f.signals().Maintenance == disable })
	u.patch(t, n.Name, annotate(disable, false))
	await(t, "maintenance ends with the annotation", func() bool { return f.signals() == ownnode.Signals{} })
	u.patch(t, n.Name, `{"spec":{"taints":[{"key":"`+ownnode.RemovalTaint+`","effect":"NoSchedule"}]}}`)
	await(t, "the autoscaler's taint is a removal", func() bool { return f.signals().Removal == "taint "+ownnode.RemovalTaint })
	u.patch(t, n.Name, `{"spec":{"taints":null}}`)
	await(t, "the removal ends with the taint", func() bool { return f.signals() == ownnode.Signals{} })
	if err := u.admin.CoreV1().Nodes().Delete(t.Context(), n.Name, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "a deletion that waits is a removal", func() bool { return f.signals().Removal == "the Node is being deleted" })
	u.patch(t, n.Name, `{"metadata":{"finalizers":null}}`)
	await(t, "a deleted Node is a removal", func() bool { return f.signals().Removal == "the Node was deleted" })
	newNode(t, u.admin, plainNode(n.Name))
	await(t, "a Node of that name that comes back is none", func() bool { return f.signals() == ownnode.Signals{} })
	if lists, watches := u.count(t, "list", 0), u.count(t, "watch", 0); lists != 1 || watches != 1 {
		t.Errorf("%d lists and %d watches, want one of each", lists, watches)
	}
}

// A broken connection costs a watch and no list, and nothing is missed.
func TestOwnNodeWatchIsResumed(t *testing.T) {
	p := plane(t)
	x := newProxy(t, p)
	u := newAgentUser(t, p, "resume", "list", "watch")
	newNode(t, u.admin, plainNode("resume-1"))
	f := u.follow(t, x.URL(), "resume-1")
	await(t, "the Node is known", func() bool { return f.get().Known })
	await(t, "it is watched", func() bool { return u.count(t, "watch", 0) == 1 })
	x.Refuse()
	u.patch(t, "resume-1", annotate(disable, true))
	if g := f.signals(); g.Maintenance != "" {
		t.Errorf("signals %+v through a network that refuses", g)
	}
	x.Thaw()
	await(t, "what happened meanwhile is learnt", func() bool { return f.signals().Maintenance == disable })
	if lists, watches := u.count(t, "list", 0), u.count(t, "watch", 0); lists != 1 || watches != 2 {
		t.Errorf("%d lists and %d watches, want 1 and 2", lists, watches)
	}
}

// A version that the server has forgotten costs one list.
func TestOwnNodeWatchExpires(t *testing.T) {
	p := plane(t)
	u := newAgentUser(t, p, "gone", "list", "watch")
	newNode(t, u.admin, plainNode("gone-1"))
	x := newProxy(t, p)
	f := u.follow(t, x.URL(), "gone-1")
	await(t, "the Node is known", func() bool { return f.get().Known })
	await(t, "it is watched", func() bool { return u.count(t, "watch", 0) == 1 })
	x.Refuse()
	u.patch(t, "gone-1", annotate(disable, true))
	// Then the first version is none of the present ones.
	u.patch(t, "gone-1", annotate("example.com/other", true))
	if _, err := p.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.KillServer(); err != nil {
		t.Fatal(err)
	}
	serverUp(t, p)
	if f.signals().Maintenance != "" {
		t.Error("a signal came through a network that refuses")
	}
	x.Thaw()
	await(t, "what happened meanwhile is learnt", func() bool { return f.signals().Maintenance == disable })
	if lists := u.count(t, "list", 0); lists != 2 {
		t.Errorf("%d lists, want a second one after 410 Gone and no more", lists)
	}
	u.patch(t, "gone-1", annotate(disable, false))
	await(t, "it is watched again", func() bool { return f.signals() == ownnode.Signals{} })
}

// When servers end in order and come back, there is neither a storm of requests nor a gap.
func TestOwnNodeOverRestarts(t *testing.T) {
	p := plane(t)
	u := newAgentUser(t, p, "restart", "list", "watch")
	newNode(t, u.admin, plainNode("restart-1"))
	f := u.follow(t, p.URL(), "restart-1")
	await(t, "the Node is known", func() bool { return f.get().Known })
	const restarts = 2
	for i := range restarts {
		if i%2 == 0 {
			if err := p.StopServer(t.Context()); err != nil {
				t.Fatal(err)
			}
		} else if err := p.KillServer(); err != nil {
			t.Fatal(err)
		}
		if s := f.get(); !s.Known || !s.Exists {
			t.Errorf("state %+v while the server is away, want the last known", s)
		}
		serverUp(t, p)
		u.patch(t, "restart-1", annotate(disable, i%2 == 0))
		await(t, "the change after the restart is learnt", func() bool { return (f.signals().Maintenance != "") == (i%2 == 0) })
	}
	if lists := u.count(t, "list", 0); lists > 1+restarts {
		t.Errorf("%d lists after %d restarts, want one for each at most", lists, restarts)
	}
	if tries := u.count(t, "watch", 0); tries > 6*restarts {
		t.Errorf("%d watches after %d restarts", tries, restarts)
	}
}

// An agent without rights knows nothing, asks rarely, and needs no restart when it gets the rights.
func TestOwnNodeWithoutRights(t *testing.T) {
	p := plane(t)
	u := newAgentUser(t, p, "denied")
	newNode(t, u.admin, plainNode("denied-1"))
	f := u.follow(t, p.URL(), "denied-1")
	began := time.Now()
	await(t, "it is denied", func() bool { return u.count(t, "list", http.StatusForbidden) >= 2 })
	if !f.signals().Unknown {
		t.Errorf("signals %+v without any right", f.signals())
	}
	if n, most := u.count(t, "list", 0), int(2+time.Since(began)/(500*time.Millisecond)); n > most {
		t.Errorf("%d requests in %v", n, time.Since(began))
	}
	u.grant(t, "denied", "list", "watch")
	await(t, "the Node is known once the rights are there", func() bool { return f.get().Known })
}

// The server itself throttles this one user: every request is 429 with Retry-After.
func TestOwnNodeThrottled(t *testing.T) {
	p := plane(t)
	u := newAgentUser(t, p, "throttled", "list", "watch", "create")
	newNode(t, u.admin, plainNode("throttled-1"))
	end := throttle(t, u)
	before := u.count(t, "list", 0)
	f := u.follow(t, p.URL(), "throttled-1")
	began := time.Now()
	await(t, "it is throttled", func() bool { return u.count(t, "list", 0) >= before+2 })
	if !f.signals().Unknown {
		t.Errorf("signals %+v from a server that answers 429", f.signals())
	}
	if n, most := u.count(t, "list", 0)-before, int(2+time.Since(began)/time.Second); n > most {
		t.Errorf("%d requests in %v, though the server asks for a pause of a second", n, time.Since(began))
	}
	end()
	await(t, "the Node is known when the throttling ends", func() bool { return f.get().Known })
}

// throttle gives the user a priority level without room for a second request, and occupies the room for one, which the
// server grants to every level.
func throttle(t *testing.T, u *agentUser) (end func()) {
	t.Helper()
	levels, schemas := u.admin.FlowcontrolV1().PriorityLevelConfigurations(), u.admin.FlowcontrolV1().FlowSchemas()
	level := &flow.PriorityLevelConfiguration{
		ObjectMeta: meta.ObjectMeta{Name: "no-room"},
		Spec: flow.PriorityLevelConfigurationSpec{Type: flow.PriorityLevelEnablementLimited, Limited: &flow.LimitedPriorityLevelConfiguration{
			NominalConcurrencyShares: new(int32(0)), BorrowingLimitPercent: new(int32(0)), LendablePercent: new(int32(0)),
			LimitResponse: flow.LimitResponse{Type: flow.LimitResponseTypeReject},
		}},
	}
	if _, err := levels.Create(t.Context(), level, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	schema := &flow.FlowSchema{
		ObjectMeta: meta.ObjectMeta{Name: "no-room"},
		Spec: flow.FlowSchemaSpec{
			PriorityLevelConfiguration: flow.PriorityLevelConfigurationReference{Name: "no-room"}, MatchingPrecedence: 10,
			Rules: []flow.PolicyRulesWithSubjects{{
				Subjects:      []flow.Subject{{Kind: flow.SubjectKindUser, User: &flow.UserSubject{Name: u.name}}},
				ResourceRules: []flow.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true, Namespaces: []string{"*"}}},
			}},
		},
	}
	if _, err := schemas.Create(t.Context(), schema, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	vacate := u.occupy(t)
	var once sync.Once
	end = func() {
		once.Do(func() {
			vacate()
			if err := schemas.Delete(context.Background(), "no-room", meta.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			if err := levels.Delete(context.Background(), "no-room", meta.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(end)
	as := client(t, u.plane.As(u.token)).CoreV1().RESTClient()
	// The server adopts new levels a little later.
	await(t, "the server throttles the user", func() bool {
		return apierrors.IsTooManyRequests(as.Get().Resource("nodes").MaxRetries(0).Do(t.Context()).Error())
	})
	return end
}

// occupy keeps a request of the user open: it begins to create an object and never sends it.
func (u *agentUser) occupy(t *testing.T) (end func()) {
	t.Helper()
	c, err := rest.HTTPClientFor(u.plane.As(u.token))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil { // the server ends the request after a minute
			body, never := io.Pipe()
			stop := context.AfterFunc(ctx, func() { never.Close() })
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.plane.URL()+"/api/v1/nodes", body)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			if resp, err := c.Do(req); err == nil {
				resp.Body.Close()
			}
			stop()
			never.Close()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
