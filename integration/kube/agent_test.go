package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

const (
	// programsEnv names the folder of the agent's program, where it is not the one of make build.
	programsEnv = "FENCING_BIN"
	groupLabel  = "node.deckhouse.io/group"
	// outageEnv is how long each kind of outage lasts, such as 10m.
	outageEnv = "FENCING_OUTAGE"
	// shortOutage is longer than evidence, which decides.
	shortOutage = 8 * time.Second
	// tolerance is for instants that each status converts to the time of day anew.
	tolerance = time.Second
)

// agentConfig has what a group needs to find its members in the API, and nothing of this machine.
const agentConfig = `cluster: prod
nodeName: %[1]s
nodeGroup: %[2]s
members: {source: kubernetes, checkInterval: %[7]v, cacheFile: %[3]s/%[1]s.members.json}
kubernetes: {kubeconfig: %[3]s/%[1]s.kubeconfig}
systemNetworks: [{name: node, address: %[4]s, port: %[5]d}]
quorum: {tieBreakers: [kubernetes]}
watchdog: {driver: none, disableFile: %[3]s/%[1]s.disable}
api: {socket: %[3]s/%[1]s.sock}
http: {address: "%[4]s:%[6]d"}
`

// agentStatus is the part of an agent's status that these tests look at.
type agentStatus struct {
	Time    time.Time
	Verdict struct {
		Permission, Reason string
		Since              time.Time
		Tally              struct{ Reachable, Counted, Expected int }
	}
	Revision string
}

// realAgent is a running fencing-agent.
type realAgent struct {
	node, http string // http is the address of its status and metrics
}

// agents are three of them, on Nodes of their own, with the role, the service account and the
// tokens of the manifests, behind a proxy.
type agents struct {
	*deployment

	proxy *controlplane.Proxy
	group []*realAgent
	check time.Duration // members.checkInterval
}

func startAgents(t *testing.T, check time.Duration) *agents {
	t.Helper()
	dir := os.Getenv(programsEnv)
	if dir == "" {
		dir = "../../bin"
	}
	program, err := filepath.Abs(filepath.Join(dir, "fencing-agent"))
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		t.Fatalf("agent: %v: run make test-kube, or name the folder in %s", err, programsEnv)
	}
	a := &agents{deployment: deploy(t), check: check}
	a.proxy = newProxy(t, a.plane)
	work, err := os.MkdirTemp("", "kube") // short, for the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(work) })
	prefix := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(256))
	port := freePort(t, prefix+"1")
	for i := 1; i <= 3; i++ {
		name, address := fmt.Sprintf("real-%d", i), fmt.Sprintf("%s%d", prefix, i)
		n := plainNode(name)
		n.Labels = map[string]string{groupLabel: "real"}
		newNode(t, a.admin, n)
		status := `{"status":{"addresses":[{"type":"InternalIP","address":"` + address + `"}]}}`
		if _, err := a.admin.CoreV1().Nodes().Patch(t.Context(), name, "application/merge-patch+json", []byte(status), meta.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		token := a.token(t, a.newPod(t, a.set, name))
		if err := a.plane.WriteKubeconfig(filepath.Join(work, name+".kubeconfig"), a.proxy.URL(), token); err != nil {
			t.Fatal(err)
		}
		config := filepath.Join(work, name+".yaml")
		if err := os.WriteFile(config, fmt.Appendf(nil, agentConfig, name, "real", work, address, port, port+1, check), 0o600); err != nil {
			t.Fatal(err)
		}
		a.group = append(a.group, &realAgent{node: name, http: fmt.Sprintf("http://%s:%d", address, port+1)})
	}
	for _, r := range a.group {
		r.run(t, program, filepath.Join(work, r.node+".yaml"), filepath.Join(a.plane.Dir(), r.node+".log"))
	}
	return a
}

func freePort(t *testing.T, address string) int {
	t.Helper()
	for range 100 {
		port := 10000 + rand.IntN(20000)
		if l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, port)); err == nil {
			_ = l.Close() // the agent is next
			return port
		}
	}
	t.Fatalf("no free port at %s", address)
	return 0
}

// run starts the agent, and ends it with the test. Its log is with those of the control plane.
func (r *realAgent) run(t *testing.T, program, config, log string) {
	t.Helper()
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() // the agent has its own descriptor
	cmd := exec.Command(program, "--config", config, "--log-format", "json")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // what it leaves behind is in its own folder
		_ = cmd.Wait()
	})
}

// status asks the agent; an agent that does not answer has none.
func (r *realAgent) status() (s agentStatus, ok bool) {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(r.http + "/debug/state")
	if err != nil {
		return s, false
	}
	defer resp.Body.Close()
	var state struct{ Status *agentStatus }
	if json.NewDecoder(resp.Body).Decode(&state) != nil || state.Status == nil {
		return s, false
	}
	return *state.Status, true
}

// becomes waits for a reason of the verdict, with all three members in the list.
func (r *realAgent) becomes(t *testing.T, reason string) {
	t.Helper()
	var last agentStatus
	defer func() {
		if t.Failed() {
			t.Logf("%s: %+v", r.node, last)
		}
	}()
	await(t, r.node+" has the verdict "+reason, func() bool {
		s, ok := r.status()
		last = s
		return ok && s.Verdict.Reason == reason && s.Verdict.Tally.Expected == 3
	})
}

// Whole agents with the role and the tokens of the manifests: what they ask for, that no
// outage of the API changes a verdict, and that maintenance comes through.
func TestAgentsOnTheRealServer(t *testing.T) {
	a := startAgents(t, 2*time.Second)
	for _, r := range a.group {
		r.becomes(t, "REASON_NETWORK_QUORUM")
	}
	t.Run("steady state", func(t *testing.T) { a.steady(t, 5*a.check) })
	fault := func(f controlplane.Fault) func() error {
		return func() error {
			a.proxy.Fault(f)
			a.proxy.Cut() // the watches, too
			return nil
		}
	}
	network := func(f func()) func() error {
		return func() error {
			f()
			return nil
		}
	}
	for _, o := range []struct {
		name  string
		begin func() error
	}{
		{"no bytes", network(a.proxy.Freeze)},
		{"refused", network(a.proxy.Refuse)},
		{"30 s late", fault(controlplane.Delay(30 * time.Second))},
		{"errors", fault(controlplane.Answer(http.StatusInternalServerError, ""))},
		{"throttled", fault(controlplane.Answer(http.StatusTooManyRequests, "1"))},
		{"lost replies", fault(controlplane.LoseReplies(func(*http.Request) bool { return true }))},
		{"the server stands still", a.plane.FreezeServer},
		{"its etcd stands still", a.plane.FreezeEtcd},
		{"crashed", a.plane.KillServer},
	} {
		t.Run(o.name, func(t *testing.T) { a.unmoved(t, o.begin) })
		a.proxy.Fault(nil)
		a.proxy.Thaw()
		if err := errors.Join(a.plane.ThawServer(), a.plane.ThawEtcd()); err != nil {
			t.Fatal(err)
		}
		serverUp(t, a.plane)
	}
	ill := a.group[1]
	if err := patchNode(a.admin, ill.node, annotate(disable, true)); err != nil {
		t.Fatal(err)
	}
	ill.becomes(t, "REASON_MAINTENANCE")
	a.group[0].becomes(t, "REASON_NETWORK_QUORUM")
	if err := patchNode(a.admin, ill.node, annotate(disable, false)); err != nil {
		t.Fatal(err)
	}
	ill.becomes(t, "REASON_NETWORK_QUORUM")
}

// unmoved begins an outage and looks at all verdicts as long as it lasts.
func (a *agents) unmoved(t *testing.T, begin func() error) {
	limit := shortOutage
	if text := os.Getenv(outageEnv); text != "" {
		var err error
		if limit, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	before := a.verdicts(t)
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for ; time.Since(began) < limit && !t.Failed(); <-pause.C {
		a.compare(t, before)
	}
}

// verdicts are the statuses of all agents, which have their permission.
func (a *agents) verdicts(t *testing.T) map[string]agentStatus {
	t.Helper()
	all := map[string]agentStatus{}
	for _, r := range a.group {
		s, ok := r.status()
		if !ok || s.Verdict.Permission != "PERMISSION_FEED" {
			t.Fatalf("%s has no permission to begin with: %+v", r.node, s)
		}
		all[r.node] = s
	}
	return all
}

// compare holds all agents to their earlier verdicts: not even for a moment another one, and
// nothing that subscribers were told.
func (a *agents) compare(t *testing.T, before map[string]agentStatus) {
	t.Helper()
	for _, r := range a.group {
		s, ok := r.status()
		if !ok {
			t.Errorf("%s does not answer", r.node)
			continue
		}
		if b := before[r.node]; s.Verdict.Permission != b.Verdict.Permission || s.Verdict.Since.Sub(b.Verdict.Since).Abs() > tolerance || s.Revision != b.Revision {
			t.Errorf("%s: verdict %+v, revision %s; before %+v, %s", r.node, s.Verdict, s.Revision, b.Verdict, b.Revision)
		}
	}
}
