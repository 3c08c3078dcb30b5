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
	"slices"
	"syscall"
	"testing"
	"time"

	authorization "k8s.io/api/authorization/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

const (
	// programsEnv names the variable with the folder of the agent's program, if it is not the one of make build.
	programsEnv = "FENCING_BIN"
	groupLabel  = "node.deckhouse.io/group"
	// tolerance allows for instants that each status converts to the time of day again.
	tolerance = time.Second
	// checkOften is an experimental.checkInterval for tests that change the list.
	checkOften = 2 * time.Second
	// standstill is the longest time for which the machine may stand still without excusing what the agents do.
	standstill = 2 * time.Second
)

// agentConfig contains what a group needs to find its members in the API, and nothing else about this machine.
const agentConfig = `cluster: prod
nodeName: %[1]s
nodeGroup: %[2]s
members: {source: kubernetes, cacheFile: %[3]s/%[1]s.members.json}
experimental: {checkInterval: %[7]v}
kubernetes: {kubeconfig: %[3]s/%[1]s.kubeconfig}
systemNetworks: [{name: node, at: %[4]s, port: %[5]d}]
quorum: {tieBreak: kubernetes}
watchdog: {driver: none, disableFile: %[3]s/%[1]s.disable}
api: {socket: %[3]s/%[1]s.sock}
http: {address: "%[4]s:%[6]d"}
`

// agentStatus is the part of an agent's status that these tests use.
type agentStatus struct {
	Time    time.Time
	Verdict struct {
		Permission, Reason, Text string
		Since                    time.Time
		Tally                    struct{ Reachable, Counted, Expected int }
	}
	Watchdog struct{ State string }
	Roster   struct {
		Change string
	}
	LunLease struct {
		Instance string // a number
	}
	Nodes []struct {
		Name, State string
		Death       struct{ Proof string }
	}
	Revision string
}

// realAgent is one fencing-agent with a separate Node.
type realAgent struct {
	node    string
	address string
	http    string // address of its status and metrics
	config  string // path of the configuration file
	program string
	log     string // path of the log
	kill    func() // kills the running process, and waits for its end
}

// agents is a group of agents with the role, the service account and the tokens of the manifests, behind a proxy.
type agents struct {
	*deployment

	proxy   *controlplane.Proxy
	stalls  *observe.Stalls
	name    string // of the group
	program string
	work    string // folder for their files
	prefix  string // prefix of their addresses
	port    int    // gossip port of all members; their HTTP listeners use the next one
	check   time.Duration
	group   []*realAgent
	made    int // number of members so far, including those that are gone
	began   time.Time
}

// newGroup returns a group without members.
func newGroup(t *testing.T, d *deployment, name string, check time.Duration) *agents {
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
	a := &agents{deployment: d, name: name, check: check, program: program, stalls: observe.NewStalls()}
	t.Cleanup(a.stalls.Close)
	// The server learns of roles a little later, also after a restart.
	for _, verb := range []string{"list", "watch"} {
		takesEffect(t, a.admin, "system:serviceaccount:"+deployedSpace+":"+deployedName, true, authorization.ResourceAttributes{Verb: verb, Resource: "nodes"})
	}
	a.began = time.Now()
	a.proxy = newProxy(t, a.plane)
	if a.work, err = os.MkdirTemp("", "kube"); err != nil { // a short path, for the sockets
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(a.work) })
	a.prefix = fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(256))
	a.port = freePort(t, a.prefix+"1")
	return a
}

// startAgents returns a group of three running agents.
func startAgents(t *testing.T, check time.Duration) *agents {
	t.Helper()
	a := newGroup(t, deploy(t), "real", check)
	for range 3 {
		a.join(t, "")
	}
	for _, r := range a.group {
		r.start(t)
	}
	return a
}

// join creates the next Node of the group, with everything that its agent needs. internal is the address in the Node;
// empty: the address that the agent has.
func (a *agents) join(t *testing.T, internal string) *realAgent {
	t.Helper()
	a.made++
	name, address := fmt.Sprintf("%s-%d", a.name, a.made), fmt.Sprintf("%s%d", a.prefix, a.made)
	if internal == "" {
		internal = address
	}
	a.register(t, name, internal)
	token := a.token(t, a.newPod(t, a.set, name))
	if err := a.plane.WriteKubeconfig(filepath.Join(a.work, name+".kubeconfig"), a.proxy.URL(), token); err != nil {
		t.Fatal(err)
	}
	r := &realAgent{
		node: name, address: address, http: fmt.Sprintf("http://%s:%d", address, a.port+1), program: a.program,
		config: filepath.Join(a.work, name+".yaml"), log: filepath.Join(a.plane.Dir(), name+".log"),
	}
	if err := os.WriteFile(r.config, fmt.Appendf(nil, agentConfig, name, a.name, a.work, address, a.port, a.port+1, a.check), 0o600); err != nil {
		t.Fatal(err)
	}
	a.group = append(a.group, r)
	return r
}

// register creates a Node with the label of the group, as its kubelet does.
func (a *agents) register(t *testing.T, name, internal string) {
	t.Helper()
	n := plainNode(name)
	n.Labels = map[string]string{groupLabel: a.name}
	newNode(t, a.admin, n)
	status := `{"status":{"addresses":[{"type":"InternalIP","address":"` + internal + `"}]}}`
	if _, err := a.admin.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(status), meta.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// member reports whether the group has an agent on that node.
func (a *agents) member(node string) bool {
	return slices.ContainsFunc(a.group, func(r *realAgent) bool { return r.node == node })
}

func freePort(t *testing.T, address string) int {
	t.Helper()
	for range 100 {
		port := 10000 + rand.IntN(20000)
		if l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, port)); err == nil {
			_ = l.Close() // the agent uses the port next
			return port
		}
	}
	t.Fatalf("no free port at %s", address)
	return 0
}

// start runs the agent, and ends it with the test. Its log is in the folder of the control plane's logs. The
// parent-death signal is sent when the thread that started the agent ends, so that thread is kept.
func (r *realAgent) start(t *testing.T) {
	t.Helper()
	out, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() // the agent has its own descriptor
	cmd := exec.Command(r.program, "--config", r.config, "--log-format", "json")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	done := make(chan struct{})
	if err := controlplane.StartChild(cmd, func(error) { close(done) }); err != nil {
		t.Fatal(err)
	}
	r.kill = func() {
		// What the agent leaves behind is in its own folder.
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		<-done
	}
	t.Cleanup(r.kill)
}

// status asks the agent for its status; ok is false if it does not answer.
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

// becomes waits until the verdict has a reason, with a list of this many members.
func (r *realAgent) becomes(t *testing.T, reason string, members int) {
	t.Helper()
	r.shows(t, fmt.Sprintf("%s of %d", reason, members), func(s agentStatus) bool {
		return s.Verdict.Reason == reason && s.Verdict.Tally.Expected == members
	})
}

// settled waits until the first members of the group, this many, all count each other by one list, are armed, and no
// change of the list is under way.
func (a *agents) settled(t *testing.T, members int) {
	t.Helper()
	for _, r := range a.group[:members] {
		r.shows(t, "a member of a settled group", func(s agentStatus) bool {
			return s.Verdict.Reason == "REASON_NETWORK_QUORUM" && s.Verdict.Tally.Counted == members && s.Verdict.Tally.Expected == members &&
				s.Roster.Change == "" && s.Watchdog.State == "WATCHDOG_STATE_ARMED"
		})
	}
}

// shows waits until the status meets a condition.
func (r *realAgent) shows(t *testing.T, what string, holds func(agentStatus) bool) {
	t.Helper()
	var last agentStatus
	defer func() {
		if t.Failed() {
			t.Logf("%s: %+v", r.node, last)
		}
	}()
	await(t, r.node+" shows "+what, func() bool {
		s, ok := r.status()
		last = s
		return ok && holds(s)
	})
}

// verdicts returns the statuses of all agents, and fails if one has no permission.
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

// excuse skips the rest of a test that is about to fail if the machine stood still: its agents stood still together,
// and rightly took each other for gone.
func (a *agents) excuse(t *testing.T) {
	t.Helper()
	if took := a.stalls.Since(a.began); took >= standstill {
		t.Skipf("this proves nothing: the machine stood still for %v", took)
	}
}

// compare checks that all agents still have their earlier verdicts: none changed, not even for a moment, and
// subscribers were told nothing.
func (a *agents) compare(t *testing.T, before map[string]agentStatus) {
	t.Helper()
	for _, r := range a.group {
		s, ok := r.status()
		if !ok {
			a.excuse(t)
			t.Errorf("%s does not answer", r.node)
			continue
		}
		if b := before[r.node]; s.Verdict.Permission != b.Verdict.Permission || s.Verdict.Since.Sub(b.Verdict.Since).Abs() > tolerance || s.Revision != b.Revision {
			a.excuse(t)
			t.Errorf("%s: verdict %+v, revision %s; before %+v, %s", r.node, s.Verdict, s.Revision, b.Verdict, b.Revision)
		}
	}
}
