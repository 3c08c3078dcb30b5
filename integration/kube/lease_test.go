package kube

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/agent"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
	"github.com/fencing-agent/fencing-agent/integration/observe"
	"github.com/fencing-agent/fencing-agent/k8s"
	"github.com/fencing-agent/fencing-agent/k8s/leaseregister"
	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
)

// tied is a group of four whole agents that break ties by a Lease of the real API server. They run in this process, so
// that their clocks can be set forward, which makes what they saw of the Lease old enough. They use a network in memory
// that can be cut.
type tied struct {
	plane   *controlplane.ControlPlane
	admin   *kubernetes.Clientset
	space   string
	proxies [2]*controlplane.Proxy // one for each half
	group   []*realAgent
	peers   []netip.Addr
	network *netgossiptest.Network // in memory, so that it can be cut
	ahead   atomic.Int64           // the time by which the clocks are ahead
	work    string
	expiry  time.Duration
}

const tiedConfig = `cluster: tied
nodeName: %[1]s
nodeGroup: four
members:
  cacheFile: %[2]s/%[1]s.members.json
  static: [%[3]s]
kubernetes: {kubeconfig: %[2]s/%[1]s.kubeconfig, node: ignore}
systemNetworks: [{name: node, at: %[4]s, port: %[5]d}]
quorum: {tieBreak: lease}
watchdog: {driver: none, disableFile: %[2]s/%[1]s.disable}
api: {socket: %[2]s/%[1]s.sock}
http: {address: "%[4]s:%[6]d"}
`

// tiedRole gives a separate service account exactly the rights on Leases that k8s.Agent lists, and returns a token of
// it.
func (g *tied) tiedRole(t *testing.T) string {
	t.Helper()
	const name = "tied"
	namespace(t, g.plane, g.space)
	if _, err := g.admin.CoreV1().ServiceAccounts(g.space).Create(t.Context(), &core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: name}}, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	role := &rbac.Role{ObjectMeta: meta.ObjectMeta{Name: name}}
	for _, a := range k8s.Agent() {
		if a.Resource != "leases" {
			continue
		}
		rule := rbac.PolicyRule{APIGroups: []string{a.Group}, Resources: []string{a.Resource}, Verbs: a.Verbs}
		if a.Named {
			rule.ResourceNames = []string{leaseregister.Name("tied", "four")}
		}
		role.Rules = append(role.Rules, rule)
	}
	if _, err := g.admin.RbacV1().Roles(g.space).Create(t.Context(), role, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbac.RoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: name}, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: name},
		Subjects: []rbac.Subject{{Kind: rbac.ServiceAccountKind, Name: name, Namespace: g.space}},
	}
	if _, err := g.admin.RbacV1().RoleBindings(g.space).Create(t.Context(), binding, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := g.plane.ServiceAccountToken(t.Context(), g.space, name, "")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func newTied(t *testing.T, space string) *tied {
	t.Helper()
	p := plane(t)
	g := &tied{plane: p, admin: client(t, p.Admin()), space: space, network: netgossiptest.NewNetwork(1)}
	token := g.tiedRole(t)
	g.proxies = [2]*controlplane.Proxy{newProxy(t, p), newProxy(t, p)}
	var err error
	if g.work, err = os.MkdirTemp("", "tied"); err != nil { // a short path, for the sockets
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(g.work) })
	prefix := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(256))
	port := freePort(t, prefix+"1")
	var members []string
	for i := range 4 {
		address := fmt.Sprintf("%s%d", prefix, i+1)
		g.peers = append(g.peers, netip.MustParseAddr(address))
		members = append(members, fmt.Sprintf("{name: tied-%d, addresses: {node: %s}}", i+1, address))
	}
	for i := range 4 {
		name := fmt.Sprintf("tied-%d", i+1)
		g.kubeconfig(t, filepath.Join(g.work, name+".kubeconfig"), g.proxies[i/2].URL(), token)
		text := fmt.Sprintf(tiedConfig, name, g.work, strings.Join(members, ", "), g.peers[i], port, port+1)
		g.start(t, name, text, fmt.Sprintf("http://%s:%d", g.peers[i], port+1))
	}
	return g
}

// kubeconfig writes a kubeconfig for the namespace of the group.
func (g *tied) kubeconfig(t *testing.T, path, server, token string) {
	t.Helper()
	if err := g.plane.WriteKubeconfig(path, server, token); err != nil {
		t.Fatal(err)
	}
	c, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c.Contexts[c.CurrentContext].Namespace = g.space
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
}

func (g *tied) start(t *testing.T, name, text, url string) {
	t.Helper()
	cfg, _, err := config.Parse(name, []byte(text), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	g.expiry = cfg.LeaseExpiry(4)
	out, err := os.Create(filepath.Join(g.plane.Dir(), name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	g.group = append(g.group, &realAgent{node: name, http: url, log: out.Name()})
	ctx, cancel := context.WithCancelCause(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		defer out.Close()
		err := agent.Run(ctx, agent.Options{
			Config: cfg, Logger: slog.New(slog.NewJSONHandler(out, nil)), Version: "test", Boot: rand.Uint64() | 1,
			Clock:  func() boottime.Instant { return boottime.Now() + boottime.Instant(g.ahead.Load()) },
			Listen: g.network.Listen,
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	t.Cleanup(func() {
		cancel(agent.ErrAbandon)
		wg.Wait()
	})
}

// forward sets all clocks forward. What the nodes know of each other is then old: each loses its quorum, and regains
// it.
func (g *tied) forward(t *testing.T, d time.Duration) {
	t.Helper()
	since := time.Now()
	g.ahead.Add(int64(d))
	g.together(t, since)
}

// together waits until every node has a majority, for the first time after an instant, and counts all others.
func (g *tied) together(t *testing.T, since time.Time) {
	t.Helper()
	for _, r := range g.group {
		r.shows(t, "all four", func(s agentStatus) bool {
			return s.Verdict.Reason == "REASON_NETWORK_QUORUM" && s.Verdict.Tally.Counted == 4 && s.Verdict.Since.After(since)
		})
	}
}

// expire sets the clocks forward until the present grant binds nobody and all agents have seen it for long enough. If a
// half is cut off from the holders while it still waits for news of their tokens, it may lose, and so may both halves.
func (g *tied) expire(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		g.forward(t, 10*time.Minute) // all agents then read the Lease again
		known := g.version(t)
		seen, agreed := g.agree()
		if agreed {
			g.forward(t, g.expiry+time.Second)
			// When the nodes find each other again, two that meet first are a half, and may write.
			if g.version(t) == known {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("not within %v: all agents know the same grant, and have done so for long enough; at last they knew %v", patience, seen)
		}
	}
}

// agree waits until all agents know the same grant, and returns the grants that they know. If an agent's latest read of
// the Lease has failed, after other reads that failed while the server could not be reached, the agent reads the Lease
// again only minutes later by its clock. agree does not wait for that.
func (g *tied) agree() (seen []string, all bool) {
	seen = make([]string, len(g.group))
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		all = true
		for i, r := range g.group {
			s, ok := r.status()
			seen[i], all = s.LunLease.Instance, all && ok
		}
		if all && !slices.ContainsFunc(seen, func(x string) bool { return x != seen[0] }) {
			return seen, true
		}
	}
	return seen, false
}

// version returns the version of the Lease.
func (g *tied) version(t *testing.T) string {
	t.Helper()
	l, err := g.admin.CoordinationV1().Leases(g.space).Get(t.Context(), leaseregister.Name("tied", "four"), meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l.ResourceVersion
}

// split drops all packets between the halves.
func (g *tied) split() { g.network.Partition(g.peers[:2], g.peers[2:]) }

func (g *tied) heal(t *testing.T) {
	t.Helper()
	since := time.Now()
	g.network.Heal()
	g.together(t, since)
}

// decided waits until no node waits for a decision any more, and returns the half that lives; -1: none. It checks that
// no node of the other half lives.
func (g *tied) decided(t *testing.T) int {
	t.Helper()
	var reasons [4]string
	for i, r := range g.group {
		r.shows(t, "a decision", func(s agentStatus) bool {
			reasons[i] = s.Verdict.Reason
			return slices.Contains([]string{"REASON_SPLIT_WON", "REASON_SPLIT_LOST", "REASON_SPLIT_UNDECIDED"}, reasons[i])
		})
	}
	won := func(half int) int {
		n := 0
		for _, r := range reasons[2*half : 2*half+2] {
			if r == "REASON_SPLIT_WON" {
				n++
			}
		}
		return n
	}
	switch a, b := won(0), won(1); {
	case a == 2 && b == 0:
		return 0
	case a == 0 && b == 2:
		return 1
	case a+b > 0:
		t.Errorf("%v: only a part of a half lives, or both halves do", reasons)
	}
	return -1
}

// holders returns the nodes that the Lease names, in its readable form.
func (g *tied) holders(t *testing.T) (string, bool) {
	t.Helper()
	l, err := g.admin.CoordinationV1().Leases(g.space).Get(t.Context(), leaseregister.Name("tied", "four"), meta.GetOptions{})
	if err != nil {
		return "", false
	}
	if l.Spec.HolderIdentity == nil {
		return "", true
	}
	return *l.Spec.HolderIdentity, true
}

// commands runs the commands of docs/kubernetes.md and docs/troubleshooting.md that show the Lease.
func (g *tied) commands(t *testing.T, holders string) {
	t.Helper()
	name := leaseregister.Name("tied", "four")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-n", g.space, "get", "lease", name, "-o", "yaml"}, "holderIdentity: " + holders},
		{[]string{"auth", "can-i", "update", "leases.coordination.k8s.io/" + name, "--as=system:serviceaccount:" + g.space + ":tied", "-n", g.space}, "yes"},
	} {
		if out, err := g.plane.Kubectl(t.Context(), "", c.args...); err != nil || !strings.Contains(out, c.want) {
			t.Errorf("kubectl %v: %v, %q lacks %q", c.args, err, out, c.want)
		}
	}
}

// Whole agents break ties by a Lease of the real API server. Exactly one half lives if one half or both can reach it,
// and none if neither can. Without a tie, nothing that the server does has an effect.
func TestLeaseBreaksTies(t *testing.T) {
	g := newTied(t, "tied")
	both := func(do func(*controlplane.Proxy)) {
		for _, x := range g.proxies {
			do(x)
		}
	}
	g.together(t, time.Time{})
	verdicts := &agents{group: g.group, stalls: observe.NewStalls(), began: time.Now()}
	t.Cleanup(verdicts.stalls.Close)
	for _, o := range []struct {
		name  string
		begin func(*controlplane.Proxy)
	}{
		{"30 s late", func(x *controlplane.Proxy) { x.Fault(controlplane.Delay(30 * time.Second)) }},
		{"errors", func(x *controlplane.Proxy) { x.Fault(controlplane.Answer(http.StatusInternalServerError, "")) }},
		{"throttled", func(x *controlplane.Proxy) { x.Fault(controlplane.Answer(http.StatusTooManyRequests, "30")) }},
		{"no bytes", (*controlplane.Proxy).Freeze},
	} {
		t.Run("whole, "+o.name, func(t *testing.T) {
			both(o.begin)
			both((*controlplane.Proxy).Cut)
			// All agents read the Lease now, and get no useful answer.
			g.forward(t, 10*time.Minute)
			verdicts.unmoved(t, func() error { return nil })
		})
		both(func(x *controlplane.Proxy) { x.Fault(nil) })
		both((*controlplane.Proxy).Thaw)
	}
	await(t, "the Lease is there", func() bool { _, ok := g.holders(t); return ok })
	g.expire(t)

	t.Run("both halves reach it", func(t *testing.T) {
		g.split()
		half := g.decided(t)
		if half < 0 {
			t.Fatal("no half lives")
		}
		want := fmt.Sprintf("tied-%d,tied-%d", 2*half+1, 2*half+2)
		if shown, _ := g.holders(t); shown != want {
			t.Errorf("the Lease names %q, want %q", shown, want)
		}
		g.commands(t, want)
		g.heal(t)
	})
	for half, name := range []string{"one half reaches it", "the other half reaches it"} {
		t.Run(name, func(t *testing.T) {
			g.expire(t)
			away := g.proxies[1-half]
			away.Freeze()
			g.split()
			if got := g.decided(t); got != half {
				t.Errorf("half %d lives, want %d", got, half)
			}
			away.Thaw()
			g.heal(t)
		})
	}
	t.Run("nobody reaches it", func(t *testing.T) {
		both((*controlplane.Proxy).Refuse)
		both((*controlplane.Proxy).Cut)
		g.split()
		if got := g.decided(t); got != -1 {
			t.Errorf("half %d lives", got)
		}
		both((*controlplane.Proxy).Thaw)
		g.heal(t)
	})
}
