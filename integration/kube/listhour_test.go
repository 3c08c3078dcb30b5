package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	authentication "k8s.io/api/authentication/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

const (
	// listHourEnv names the variable with the length of the long measurement of the controller's requests, such as 1h,
	// and manyEnv the one with the number of agents in the larger of its two groups. Without them the test is short and
	// small.
	listHourEnv = "FENCING_LIST_HOUR"
	manyEnv     = "FENCING_LIST_AGENTS"
	// fakeLabel is the group's label for the replicas that the many agents follow.
	fakeLabel = "fencing-agent.io/group"
	fakeGroup = "many"
)

// crowd is a group of agents that only follow the controller. Each has a separate Node, pod, token and connection.
type crowd struct {
	a        *agents
	replicas []string
	pool     *x509.CertPool
	wg       sync.WaitGroup

	mu    sync.Mutex
	epoch map[string]uint64 // by node: the epoch that it received last
	size  map[string]int
	ended int // number of streams that have ended
}

// follows adds one agent.
func (c *crowd) follows(t *testing.T, ctx context.Context, i int) {
	t.Helper()
	a, name := c.a, fmt.Sprintf("many-%d", i)
	n := plainNode(name)
	n.Labels = map[string]string{fakeLabel: fakeGroup}
	newNode(t, a.admin, n)
	pod := a.newPod(t, a.set, name)
	hours := int64(4 * 3600)
	token, err := a.admin.CoreV1().ServiceAccounts(deployedSpace).CreateToken(t.Context(), deployedName, &authentication.TokenRequest{
		Spec: authentication.TokenRequestSpec{
			Audiences: []string{"fencing-controller"}, ExpirationSeconds: &hours,
			BoundObjectRef: &authentication.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		},
	}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token.Status.Token)
	report := &fencingv1.MembersReport{Group: fakeGroup, Addresses: map[string]string{"node": fmt.Sprintf("10.7.%d.%d", i/250, 1+i%250)}, Version: "fake"}
	c.wg.Go(func() {
		for ctx.Err() == nil {
			_ = c.stream(ctx, name, c.replicas[i%len(c.replicas)], report)
			c.mu.Lock()
			c.ended++
			c.mu.Unlock()
			wait := time.NewTimer(time.Second + rand.N(5*time.Second))
			select {
			case <-wait.C:
			case <-ctx.Done():
			}
		}
	})
}

func (c *crowd) stream(ctx context.Context, name, replica string, report *fencingv1.MembersReport) error {
	conn, err := grpc.NewClient("passthrough:///"+replica, grpc.WithNoProxy(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: c.pool, ServerName: strings.Split(replica, ":")[0], MinVersion: tls.VersionTLS13,
	})))
	if err != nil {
		return err
	}
	defer conn.Close()
	call, err := fencingv1.NewFencingMembersClient(conn).Follow(ctx)
	if err == nil {
		err = call.Send(report)
	}
	for err == nil {
		var u *fencingv1.MembersUpdate
		if u, err = call.Recv(); err == nil && u.GetList() != nil {
			c.mu.Lock()
			c.epoch[name], c.size[name] = u.GetList().GetEpoch(), len(u.GetList().GetMembers())
			c.mu.Unlock()
		}
	}
	return err
}

// agree waits until all agents have received one list of n members.
func (c *crowd) agree(t *testing.T, n int) {
	t.Helper()
	await(t, fmt.Sprintf("%d follow", n), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		epochs := map[uint64]bool{}
		for _, e := range c.epoch {
			epochs[e] = true
		}
		return len(c.epoch) == n && len(epochs) == 1 && !slices.ContainsFunc(slices.Collect(maps.Values(c.size)), func(s int) bool { return s != n })
	})
}

// asked counts, by kind, what these replicas have requested since a moment, with watches separately.
func asked(t *testing.T, p *controlplane.ControlPlane, since time.Time, replicas ...string) (requests, watches map[string]int) {
	t.Helper()
	requests, watches = map[string]int{}, map[string]int{}
	all, err := p.Requests(func(r controlplane.Request) bool {
		pod := r.User.Extra["authentication.kubernetes.io/pod-name"]
		return r.Received.After(since) && len(pod) == 1 && slices.Contains(replicas, pod[0])
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Verb == "watch" {
			watches[r.Object.Resource]++
		} else if r.Object.Resource != "" {
			requests[r.Verb+" "+r.Object.Resource]++
		}
	}
	return requests, watches
}

// set starts two replicas that serve one group label, each with a token of a separate pod.
func (w *recoveryWorld) set(a *agents, host, prefix, settings string) (addresses, names []string) {
	w.t.Helper()
	for _, letter := range []string{"a", "b"} {
		name, address := prefix+"-"+letter, fmt.Sprintf("%s:%d", host, freePort(w.t, host))
		w.replicaPod(name)
		var err error
		w.token, err = w.plane.ServiceAccountToken(w.t.Context(), controllerSpace, controllerSpace, name)
		w.must(err)
		w.replica(name, settings+fmt.Sprintf("members: {enabled: true, address: %q, certFile: %[2]s/tls.crt, keyFile: %[2]s/tls.key, agents: [%[3]s/%[4]s]}\n",
			address, a.work, deployedSpace, deployedName))
		addresses, names = append(addresses, address), append(names, name)
	}
	return addresses, names
}

// beats writes the status of all Nodes of the crowd, like kubelets without news.
func (c *crowd) beats(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	names := slices.Sorted(maps.Keys(c.epoch))
	c.mu.Unlock()
	for _, n := range names {
		status := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
		if _, err := c.a.admin.CoreV1().Nodes().Patch(t.Context(), n, types.StrategicMergePatchType, []byte(status), meta.PatchOptions{}, "status"); err != nil {
			t.Error(err)
		}
	}
}

// amount returns a whole number from the environment.
func amount(t *testing.T, name string, otherwise int) int {
	t.Helper()
	if text := os.Getenv(name); text != "" {
		if _, err := fmt.Sscan(text, &otherwise); err != nil {
			t.Fatal(err)
		}
	}
	return otherwise
}

// live lets time pass. Kubelets write, and halfway a Node joins each group while one node of each is under maintenance.
func (c *crowd) live(t *testing.T, ctx context.Context, w *recoveryWorld, length time.Duration, many int, replica string) {
	t.Helper()
	a := c.a
	joins, over, kubelet := time.NewTimer(length/2), time.NewTimer(length), time.NewTicker(min(kubeletPause, length/3))
	defer kubelet.Stop()
	for done := false; !done && !t.Failed(); {
		select {
		case <-kubelet.C:
			a.heartbeat(t)
			c.beats(t)
		case <-joins.C:
			for _, n := range []string{a.group[0].node, "many-0"} {
				w.must(patchNode(a.admin, n, annotate(disable, true)))
			}
			a.follower(t, replica).start(t)
			c.follows(t, ctx, many)
			c.agree(t, many+1)
			for _, n := range []string{a.group[0].node, "many-0"} {
				w.must(patchNode(a.admin, n, annotate(disable, false)))
			}
			a.settled(t, 4)
		case <-over.C:
			done = true
		}
	}
}

// The requests of two replicas to a real API server do not depend on the number of agents that follow them. Two
// replicas serve a group of three real agents, and two others serve a group of many agents that only follow. Kubelets
// write meanwhile, a Node joins each group, and one of each is under maintenance for a while. The agents themselves
// send no requests.
func TestRequestsOfTheControllerDoNotGrow(t *testing.T) {
	length, many := 30*time.Second, amount(t, manyEnv, 20)
	if text := os.Getenv(listHourEnv); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	w := newRecoveryWorld(t)
	a := newGroup(t, deploy(t), "three", checkOften)
	apply(t, a.plane, listsManifest(t))
	host := a.prefix + "250"
	certificate(t, a.work, host)
	began := time.Now()
	few, fewNames := w.set(a, host, "few", "")
	others, manyNames := w.set(a, host, "many", "groupLabel: "+fakeLabel+"\n")
	for i := range 3 {
		a.follower(t, few[i%2]).start(t)
	}
	ca, err := os.ReadFile(filepath.Join(a.work, "tls.crt"))
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{a: a, replicas: others, pool: x509.NewCertPool(), epoch: map[string]uint64{}, size: map[string]int{}}
	c.pool.AppendCertsFromPEM(ca)
	ctx, cancel := context.WithCancel(t.Context())
	defer c.wg.Wait()
	defer cancel()
	for i := range many {
		c.follows(t, ctx, i)
	}
	c.agree(t, many)
	a.settled(t, 3)

	hour := time.Now()
	c.mu.Lock()
	c.ended = 0
	c.mu.Unlock()
	c.live(t, ctx, w, length, many, few[1])
	took := time.Since(hour).Round(time.Second)
	fewAsked, fewWatches := asked(t, a.plane, hour, fewNames...)
	manyAsked, manyWatches := asked(t, a.plane, hour, manyNames...)
	t.Logf("in %v two replicas asked for 3 agents: %v, watches %v", took, fewAsked, fewWatches)
	t.Logf("in %v two replicas asked for %d agents: %v, watches %v; %d streams ended", took, many, manyAsked, manyWatches, c.ended)
	for what := range manyAsked {
		// Their number depends on which of two replicas writes first, and is limited below.
		if fewAsked[what] == 0 {
			t.Errorf("for %d agents the controller asks for %q, and for 3 it does not", many, what)
		}
	}
	agent := "system:serviceaccount:" + deployedSpace + ":" + deployedName
	of, err := a.plane.Requests(func(r controlplane.Request) bool { return r.User.Name == agent && r.Received.After(began) })
	if err != nil || len(of) > 0 {
		t.Errorf("the agents have asked the API server %d times: %v, %v", len(of), of, err)
	}
	for _, counts := range []map[string]int{fewAsked, manyAsked} {
		n := 0
		for what, k := range counts {
			if what != "create tokenreviews" {
				n += k
			}
		}
		// When one Node joins, there are three steps of the book, which either replica may take: its report, its
		// membership, and a check that finds nothing to do.
		if n > 40 {
			t.Errorf("%d requests for one Node that joins: %v", n, counts)
		}
	}
}
