package kube

import (
	"context"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
	"github.com/fencing-agent/fencing-agent/k8s/apicheck"
)

const (
	checkInterval = 500 * time.Millisecond
	checkTimeout  = 400 * time.Millisecond
)

// checks is a running checker and its results.
type checks struct {
	count     atomic.Int64
	reachable atomic.Bool
}

// startChecks runs a checker against the address until the test ends.
func startChecks(t *testing.T, p *controlplane.ControlPlane, address, token string) *checks {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := p.WriteKubeconfig(path, address, token); err != nil {
		t.Fatal(err)
	}
	found := &checks{}
	k, err := apicheck.New(apicheck.Config{
		Kubeconfig: path, Pace: apicheck.NewPace(checkInterval, checkInterval), Timeout: checkTimeout, Clock: boottime.Now,
		OnResult: func(reachable bool, _ boottime.Instant) {
			found.reachable.Store(reachable)
			found.count.Add(1)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return found
}

// becomes waits for a result of a check that began after the call.
func (c *checks) becomes(t *testing.T, want bool, why string) {
	t.Helper()
	began := c.count.Load() + 1 // the check that is running now does not count
	await(t, why, func() bool { return c.count.Load() > began && c.reachable.Load() == want })
}

// An API server is reachable from the moment when it is ready until it ends.
func TestCheckSeesRestarts(t *testing.T) {
	p := plane(t)
	c := startChecks(t, p, p.URL(), "")
	c.becomes(t, true, "a ready server is reachable")
	if err := p.KillServer(); err != nil {
		t.Fatal(err)
	}
	c.becomes(t, false, "a server that crashed is not reachable")
	serverUp(t, p)
	c.becomes(t, true, "a server that came back is reachable")
	if err := p.StopServer(t.Context()); err != nil {
		t.Error(err)
	}
	c.becomes(t, false, "a server that was stopped is not reachable")
	serverUp(t, p)
	c.becomes(t, true, "a server that came back again is reachable")
}

// A server that answers but has lost its data must not decide for a half of the nodes.
func TestCheckSeesThatTheServerHasLostEtcd(t *testing.T) {
	p := plane(t)
	c := startChecks(t, p, p.URL(), "")
	c.becomes(t, true, "a ready server is reachable")
	if err := p.FreezeEtcd(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.ThawEtcd(); err != nil {
			t.Error(err)
		}
		c.becomes(t, true, "a server that has its data again is reachable")
	}()
	c.becomes(t, false, "a server without etcd is not reachable")
}

func TestCheckThroughABadNetwork(t *testing.T) {
	p := plane(t)
	x := newProxy(t, p)
	c := startChecks(t, p, x.URL(), "")
	for _, step := range []struct {
		name string
		edit func()
		want bool
	}{
		{"as it is", func() {}, true},
		{"silent", x.Freeze, false},
		{"back from silence", x.Thaw, true},
		{"refused", x.Refuse, false},
		{"accepted", x.Thaw, true},
		{"slower than the timeout", func() { x.Fault(controlplane.Delay(10 * checkTimeout)) }, false},
		{"slow, but faster than the timeout", func() { x.Fault(controlplane.Delay(checkTimeout / 20)) }, true},
		{"lost replies", func() { x.Fault(controlplane.LoseReplies(func(*http.Request) bool { return true })) }, false},
		{"lost requests", func() { x.Fault(controlplane.LoseRequests(func(*http.Request) bool { return true })) }, false},
		{"throttled", func() { x.Fault(controlplane.Answer(http.StatusTooManyRequests, "1")) }, true},
		{"a proxy without servers", func() { x.Fault(controlplane.Answer(http.StatusServiceUnavailable, "")) }, false},
		{"as it was", func() { x.Fault(nil) }, true},
	} {
		step.edit()
		c.becomes(t, step.want, step.name)
	}
}

// Mistakes in RBAC and tokens affect all nodes alike: they do not count as isolation.
func TestCheckWithoutRights(t *testing.T) {
	p := plane(t)
	client, err := kubernetes.NewForConfig(p.Admin())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	codes := func(since time.Time) map[int]bool {
		requests, err := p.Requests(func(r controlplane.Request) bool {
			return r.UserAgent == "fencing-agent" && r.Received.After(since) && r.Response.Code != 0
		})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{}
		for _, r := range requests {
			seen[r.Response.Code] = true
		}
		return seen
	}

	began := time.Now()
	c := startChecks(t, p, p.URL(), "a token that nobody issued")
	c.becomes(t, true, "a server that refuses the token is reachable")
	if seen := codes(began); !seen[http.StatusUnauthorized] {
		t.Errorf("the token was not refused: %v", seen)
	}

	// Without this binding only the administrator may ask whether the server is ready.
	const binding = "system:public-info-viewer"
	bindings := client.RbacV1().ClusterRoleBindings()
	old, err := bindings.Get(ctx, binding, meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bindings.Delete(ctx, binding, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		back := &rbac.ClusterRoleBinding{ObjectMeta: meta.ObjectMeta{Name: binding, Labels: old.Labels, Annotations: old.Annotations}, RoleRef: old.RoleRef, Subjects: old.Subjects}
		if _, err := bindings.Create(context.Background(), back, meta.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}()
	began = time.Now()
	c = startChecks(t, p, p.URL(), "")
	await(t, "the server refuses to say whether it is ready", func() bool { return codes(began)[http.StatusForbidden] })
	c.becomes(t, true, "a server that refuses to say whether it is ready is reachable")
}
