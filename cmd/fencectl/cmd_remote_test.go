package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
)

const threeAgents = `{"items": [
 {"metadata": {"name": "a10", "namespace": "f"}, "spec": {"nodeName": "n10", "containers": [{"args": ["--config=/etc/x/agent.yaml"], "ports": [{"containerPort": 9111}], "livenessProbe": {"httpGet": {"host": "127.0.0.1"}}}]}},
 {"metadata": {"name": "a1", "namespace": "f"}, "spec": {"nodeName": "n1", "containers": [{"ports": [{"containerPort": 9111}]}]}, "status": {"hostIP": "10.0.0.1"}},
 {"metadata": {"name": "a2", "namespace": "f"}, "spec": {"nodeName": "n2"}}
]}`

// asKubectl makes a program that answers by cases of a shell's case.
func asKubectl(t *testing.T, cases string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "kubectl")
	const rest = "*) echo \"asked for $*\" >&2; exit 1 ;;\nesac\n"
	if err := os.WriteFile(program, []byte("#!/bin/sh\ncase \"$*\" in\n"+cases+rest), 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}

// runPlugin runs a command line as kubectl does.
func runPlugin(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	here := map[string]string{envSocket: filepath.Join(t.TempDir(), "none"), "COLUMNS": "100"}
	code = run(t.Context(), &environment{name: pluginName, stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(key string) string { return here[key] }}, args)
	return code, out.String(), errs.String()
}

func TestStatusOfANode(t *testing.T) {
	program := asKubectl(t, `
"get --context prod pods -l `+agentSelector+` -o json --all-namespaces --field-selector spec.nodeName=n2") echo '{"items": [{"metadata": {"name": "a2", "namespace": "f"}, "spec": {"nodeName": "n2"}}]}' ;;
*spec.nodeName=n9) echo '{"items": []}' ;;
"exec --context prod --namespace f a2 -- fencectl status -o table --verbose --check") echo 'n2: FEEDING'; echo 'fencectl: check of n2: no quorum' >&2; echo 'command terminated with exit code 1' >&2; exit 1 ;;
`)
	evil := asKubectl(t, `
"get pods"*) echo '{"items": [{"metadata": {"name": "a2", "namespace": "f"}, "spec": {"nodeName": "n2"}}]}' ;;
*) printf 'n2: \033]0;title\007FEEDING\302\233\342\200\256\n\377 150\302\265s\n'; printf 'fencectl: \033[2J' >&2; exit 1 ;;
`)
	if code, out, diag := runPlugin(t, "status", "n2", "--kubectl", evil); code != exitFailed || out != "n2: ?]0;title?FEEDING??\n? 150µs\n" || strings.Contains(diag, "\033") {
		t.Errorf("%d %q %q", code, out, diag)
	}
	code, out, diag := runPlugin(t, "status", "n2", "-v", "--check", "--context", "prod", "--kubectl", program)
	if code != exitFailed || out != "n2: FEEDING\n" || !strings.Contains(diag, "check of n2: no quorum") {
		t.Errorf("%d\n%s\n%s", code, out, diag)
	}
	if code, _, diag := runIn(t, "", nil, "status", "n9", "--kubectl", program); code != exitFailed || !strings.Contains(diag, "runs on n9") {
		t.Errorf("%d %s", code, diag)
	}
	// Where no agent is, kubectl's user means one of a cluster.
	if code, _, diag := runPlugin(t, "status"); code != exitUsage || !strings.Contains(diag, "NODE or --all is missing") {
		t.Errorf("%d %s", code, diag)
	}
	if code, _, diag := runIn(t, "", nil, "status", "n2", "--socket", "/x"); code != exitUsage || !strings.Contains(diag, "--socket is of this machine") {
		t.Errorf("%d %s", code, diag)
	}
}

// What does not answer is not waited for, and the error says for how long it was.
func TestKubectlThatIsSlow(t *testing.T) {
	k := kubeFlags{program: asKubectl(t, `*) exec sleep 60 ;;`+"\n"), patience: 50 * time.Millisecond}
	_, err := k.run(t.Context(), "get", "pods")
	if want := "kubectl get: no answer within 50ms"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestHistoryOfANode(t *testing.T) {
	program := asKubectl(t, `
"get"*) echo '{"items": [{"metadata": {"name": "a2", "namespace": "f"}, "spec": {"nodeName": "n2"}}]}' ;;
"exec --namespace f a2 -- fencectl history -o table --samples=false --boot -1") printf 'boot -1 ended NOT FED\033\n' ;;
`)
	if code, out, diag := runPlugin(t, "history", "n2", "--boot", "-1", "--kubectl", program); code != exitOK || out != "boot -1 ended NOT FED?\n" {
		t.Errorf("%d %q %q", code, out, diag)
	}
	if code, _, diag := runPlugin(t, "history"); code != exitUsage || !strings.Contains(diag, "NODE is missing") {
		t.Errorf("%d %q", code, diag)
	}
}

// Guard: what the pod logs is handed to the agent's own fencectl, which knows the group's keys.
func TestBundleOfANode(t *testing.T) {
	const pod = `"get"*) echo '{"items": [{"metadata": {"name": "a2", "namespace": "f"}, "spec": {"nodeName": "n2"}}]}' ;;` + "\n" +
		`"logs --namespace f a2 --since 24h --tail 50000 --previous") echo 'no such container' >&2; exit 1 ;;` + "\n" +
		`"logs --namespace f a2 --since 24h --tail 50000") echo 'feed (network_quorum)' ;;` + "\n"
	program := asKubectl(t, pod+`"exec -i --namespace f a2 -- fencectl bundle - --config `+agentConfig+` --log -") printf '\037\213'; cat ;;`+"\n")
	file := filepath.Join(t.TempDir(), "n2.tar.gz")
	code, out, diag := runPlugin(t, "bundle", file, "n2", "--kubectl", program)
	got, err := os.ReadFile(file)
	if code != exitOK || err != nil || string(got) != "\x1f\x8bkubectl logs --previous: kubectl logs: no such container\nfeed (network_quorum)\n" || !strings.Contains(out, "of n2, ") {
		t.Errorf("%d %q %q %q %v", code, got, out, diag, err)
	}
	old := asKubectl(t, pod+`"exec"*) echo '-: 8 files' ;;`+"\n")
	if code, _, diag := runPlugin(t, "bundle", file+"2", "n2", "--kubectl", old); code != exitFailed || !strings.Contains(diag, "older") || exists(file+"2") {
		t.Errorf("%d %q", code, diag)
	}
	if code, _, diag := runPlugin(t, "bundle", file+"3", "--config", filepath.Join(t.TempDir(), "none")); code != exitUsage || !strings.Contains(diag, "NODE is missing") {
		t.Errorf("%d %q", code, diag)
	}
}

// A log that is handed in takes the place of the journal, and the archive may go to standard output.
func TestBundleToStandardOutput(t *testing.T) {
	var out bytes.Buffer
	env := &environment{name: "fencectl", stdin: strings.NewReader("a line\n"), stdout: &out, stderr: io.Discard, getenv: func(string) string { return "" }}
	if code := run(t.Context(), env, []string{"bundle", "-", "--log", "-", "--root", plant(t, map[string]string{}), "--socket", filepath.Join(t.TempDir(), "none")}); code != exitOK {
		t.Fatal(code)
	}
	z, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil || !bytes.Contains(text, []byte("fencing-agent/agent.log")) || !bytes.Contains(text, []byte("a line\n")) {
		t.Errorf("%q %v", text, err)
	}
}

func TestStatusOfAll(t *testing.T) {
	well, err := protojson.Marshal(scene(t, "healthy"))
	if err != nil {
		t.Fatal(err)
	}
	lost, err := protojson.Marshal(scene(t, "split-lost"))
	if err != nil {
		t.Fatal(err)
	}
	program := asKubectl(t, `
"get pods"*) cat <<'END'
`+threeAgents+`
END
;;
*" a1 -- fencectl status --check -o json") cat <<'END'
`+string(well)+`
END
;;
*" a2 "*) cat <<'END'
`+string(lost)+`
END
echo 'fencectl: check of n2: the agent stands still' >&2; echo 'command terminated with exit code 1' >&2; exit 1 ;;
`)
	code, out, diag := runPlugin(t, "status", "--all", "--kubectl", program)
	lines := strings.Split(out, "\n")
	if code != exitOK || diag != "" || len(lines) < 6 {
		t.Fatalf("%d\n%s\n%s", code, out, diag)
	}
	said := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{"NODE VERDICT COUNTED", "n1 FEEDING 4 of 4, 3 needed - n2 NOT FEEDING", "the agent stands still; n1, n2: UNREACHABLE", "n10 cannot be asked ?"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	for _, line := range lines {
		if len(line) > 100 {
			t.Errorf("too wide: %q", line)
		}
	}
	code, out, diag = runPlugin(t, "status", "--all", "--check", "-o", "json", "--kubectl", program)
	var got []agentLine
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitFailed || len(got) != 3 || !got[0].Quorum || strings.Contains(diag, "n1:") || !strings.Contains(diag, "n2: kubectl exec: fencectl: check of n2") {
		t.Errorf("%d %v\n%s\n%s", code, err, out, diag)
	}
}

func TestEventsInOrderOfTime(t *testing.T) {
	cases := strings.NewReplacer(`*"get events"*`, `"get events --namespace default -o json"`, `*"get nodefences"*`, `"get nodefences.fencing-agent.io --all-namespaces -o json"`).Replace(fakeKubectl)
	cases = strings.Replace(cases, "HEARD", "2026-03-01T12:00:15Z", 1)
	cases = cases[strings.Index(cases, "\n*")+1 : strings.Index(cases, `*"get pods"*`)]
	cases = strings.ReplaceAll(cases, `{"reason": `, `{"involvedObject": {"kind": "Node", "name": "node-4"}, "reason": `)
	cases = strings.Replace(cases, `{"spec": {"nodeName": "node-4"}, "status": {"step": "power_management", "phase": "error",`,
		`{"metadata": {"name": "node-fence-node-4", "creationTimestamp": "2026-03-01T12:00:01Z"}, "spec": {"nodeName": "node-4", "boot": "024bc581b3a34be3"}, "status": {"step": "power_management", "phase": "error", "stepStartedAt": "2026-03-01T12:00:02Z", "phaseEndedAt": "2026-03-01T12:00:09.5Z", "jobs": [{"method": "apc", "action": "off", "state": "failed", "startedAt": "2026-03-01T12:00:03Z"}],`, 1)
	cases = strings.Replace(cases, `"kind": "power",`, `"kind": "power", "at": "2026-03-01T12:00:08Z",`, 1)
	cases = strings.Replace(cases, `{"type": "Ready", "status": "Unknown"}`, `{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": "2026-03-01T12:00:12Z"}`, 1)
	program := asKubectl(t, cases+`*fencingremediations*) echo "error: the server doesn't have a resource type \"fencingremediations\"" >&2; exit 1 ;;
`)
	code, out, diag := runIn(t, "", map[string]string{"TZ": "UTC"}, "events", "node-4", "--kubectl", program)
	if code != exitOK || diag != "" {
		t.Fatalf("%d\n%s\n%s", code, out, diag)
	}
	if want := strings.TrimPrefix(eventsPrinted, "\n"); out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	if !strings.Contains(guide(t), "```\n"+strings.TrimPrefix(eventsPrinted, "\n")+"```\n") {
		t.Error("docs/fencectl.md does not show what is printed: copy eventsPrinted there")
	}
	if code, _, diag := runIn(t, "", nil, "events", "node-9", "--kubectl", program); code != exitFailed || !strings.Contains(diag, "there is no Node node-9") {
		t.Errorf("%d %s", code, diag)
	}
	// What is forbidden is told, and the rest is there.
	code, out, diag = runIn(t, "", nil, "events", "-o", "json", "--kubectl", asKubectl(t, cases))
	if code != exitFailed || !strings.Contains(diag, "fencingremediations") || !strings.Contains(out, `"BarrierSet"`) || !strings.Contains(out, `"node": "node-3"`) {
		t.Errorf("%d\n%s\n%s", code, out, diag)
	}
}

const eventsPrinted = `
TIME                 NODE    FROM                WHAT          DETAIL
2026-02-01 12:00:13  node-4  node-2              Death         boot 111bc581b3a34be3 has ended, proof time
2026-03-01 12:00:01  node-4  NodeFence           Created       boot 024bc581b3a34be3
2026-03-01 12:00:02  node-4  NodeFence           Step          power_management
2026-03-01 12:00:03  node-4  NodeFence           Job           apc off failed
2026-03-01 12:00:08  node-4  NodeFence           Proof         power, contradicted: the kubelet of that boot was heard after that
2026-03-01 12:00:09  node-4  NodeFence           Phase         power_management error, a method failed
2026-03-01 12:00:12  node-4  node                Ready         Unknown, NodeStatusUnknown
2026-03-01 12:00:13  node-4  node-1              Death         boot 024bc581b3a34be3 has ended, proof sentence
2026-03-01 12:00:14  node-4  fencing-controller  BarrierSet    the barrier is set
2026-03-01 12:00:14  node-4  node-3              Death         boot 024bc581b3a34be3 has ended, proof sentence, told to fencing-controller
2026-03-01 12:00:15  node-4  fencing-controller  NodeReleased  its pods are gone; the taint stays until the node is back in another boot (2 times)
`

func TestUIForwardsAndSaysWhere(t *testing.T) {
	program := asKubectl(t, `
*spec.nodeName=n1*) echo '{"items": [{"metadata": {"name": "a1", "namespace": "f"}, "spec": {"nodeName": "n1", "containers": [{"ports": [{"containerPort": 9111}], "livenessProbe": {"httpGet": {"host": "127.0.0.1"}}}]}}]}' ;;
"get pods --namespace fencing-controller"*) printf 'c-1 False\nc-2 True\n' ;;
"get pods --namespace none"*) ;;
"port-forward --namespace f --address 127.0.0.1 pod/a1 :9111") echo 'Forwarding from 127.0.0.1:40001 -> 9111'; sleep 600 ;;
"port-forward --namespace fencing-controller --address 127.0.0.1 pod/c-2 8000:9124") echo 'Forwarding from 127.0.0.1:8000 -> 9124'; echo 'error: lost connection to pod' >&2; exit 1 ;;
`)
	var opened string
	out, errs := newOutput(), newOutput()
	env := &environment{name: pluginName, stdout: out, stderr: errs, getenv: os.Getenv}
	ctx, cancel := context.WithCancel(t.Context())
	u := &viewer{env: env, kube: &kubeFlags{program: program}, open: true, browse: func(_ context.Context, url string) error {
		opened = url
		cancel()
		return nil
	}}
	pod, err := u.agent(ctx, "n1")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- u.show(ctx, pod) }()
	select {
	case err = <-ended:
	case <-time.After(patience):
		t.Fatal("it goes on after it was interrupted")
	}
	if err != nil || out.String() != "http://127.0.0.1:40001/\n" || opened != "http://127.0.0.1:40001/" {
		t.Errorf("%v: %q, opened %q", err, out, opened)
	}
	code, said, diag := runPlugin(t, "ui", "--local-port", "8000", "--kubectl", program)
	if code != exitFailed || said != "http://127.0.0.1:8000/\n" || !strings.Contains(diag, "lost connection to pod") {
		t.Errorf("%d %q %q", code, said, diag)
	}
	for port, want := range map[string]string{"abc": `invalid argument "abc" for "--port" flag: a whole number is needed; see`, "0": "1 to 65535 are possible", "65536": "1 to 65535 are possible"} {
		if code, _, diag := runPlugin(t, "ui", "--port", port, "--kubectl", program); code != exitUsage || !strings.Contains(diag, want) || strings.Contains(diag, "strconv") {
			t.Errorf("--port %s: %d %q", port, code, diag)
		}
	}
	if code, _, diag := runPlugin(t, "ui", "-n", "none", "--kubectl", program); code != exitFailed || !strings.Contains(diag, "no replica of fencing-controller is ready") {
		t.Errorf("%d %q", code, diag)
	}
	u.browse = func(context.Context, string) error { return errors.New("no display") }
	if err := u.tell(t.Context(), "http://127.0.0.1:1/"); err != nil || !strings.Contains(errs.String(), "no display") {
		t.Errorf("%v, %s", err, errs)
	}
}

const oneOfThree = `
cluster: prod
nodeGroup: storage
nodeName: %s
systemNetworks: [{name: mgmt, at: %s, port: %s}]
members: {static: [{name: n1, addresses: {mgmt: 10.0.0.1}}, {name: n2, addresses: {mgmt: 10.0.0.2}}, {name: n3, addresses: {mgmt: 10.0.0.3}}]}
quorum: {tieBreak: none}
restartGrace: %s
`

// Which node differs in which key; devices and paths may, and are not told of.
func TestConfigCheckOfAllNodes(t *testing.T) {
	dir := t.TempDir()
	file := func(name, device, port, grace string) string {
		t.Helper()
		path := filepath.Join(dir, name+".yaml")
		text := oneOfThree
		for _, v := range []string{name, device, port, grace} {
			text = strings.Replace(text, "%s", v, 1)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	n1, n2, n3, grace := file("n1", "eth0", "7946", "30s"), file("n2", "bond0", "7946", "30s"), file("n3", "eth0", "7947", "30s"), ""
	code, out, diag := runIn(t, "", nil, "config", "check", "--all-nodes", n1, n2)
	if code != exitOK || !strings.Contains(out, "2 nodes: equal in all that must be equal") || strings.Contains(out, "bond0") {
		t.Errorf("%d\n%s\n%s", code, out, diag)
	}
	code, out, diag = runIn(t, "", nil, "config", "check", "--all-nodes", n1, n2, n3)
	if code != exitFailed || !strings.Contains(out, "must be equal  systemNetworks[mgmt].port  "+n3+": 7947; "+n1+", "+n2+": 7946") || !strings.Contains(diag, "group storage: systemNetworks[mgmt].port differs") {
		t.Errorf("%d\n%s\n%s", code, out, diag)
	}
	lone := filepath.Join(dir, "n4.yaml")
	if text, err := os.ReadFile(n3); err != nil || os.WriteFile(lone, bytes.ReplaceAll(text, []byte("nodeGroup: storage"), []byte("nodeGroup: stroage")), 0o600) != nil {
		t.Fatal(err)
	}
	code, out, diag = runIn(t, "", nil, "config", "check", "--all-nodes", n1, n2, lone)
	if code != exitOK || !strings.Contains(out, "group stroage") || !strings.Contains(out, "compared with no other") || strings.Contains(out, "group stroage  1 node: equal") {
		t.Errorf("%d\n%s\n%s", code, out, diag)
	}
	grace = file("n2", "eth0", "7946", "1m")
	code, out, diag = runIn(t, "", nil, "config", "check", "--all-nodes", n1, grace)
	if code != exitOK || !strings.Contains(out, "may differ") || !strings.Contains(out, "restartGrace") {
		t.Errorf("%d\n%s\n%s", code, out, diag)
	}
	// In a cluster it is what fencectl prints beside each agent.
	answer := func(file string) string {
		t.Helper()
		code, out, diag := runIn(t, "", nil, "config", "check", file, "-o", "json")
		if code != exitOK {
			t.Fatal(diag)
		}
		return "cat <<'END'\n" + out + "END\n;;\n"
	}
	program := asKubectl(t, "\"get pods\"*) cat <<'END'\n"+threeAgents+"\nEND\n;;\n"+
		"*\" a1 -- fencectl config check "+agentConfig+" -o json\") "+answer(n1)+"*\" a2 \"*) "+answer(n1)+
		"*\" a10 -- fencectl config check /etc/x/agent.yaml -o json\") "+answer(n3))
	code, out, diag = runPlugin(t, "config", "check", "--all-nodes", "--kubectl", program)
	if code != exitFailed || !strings.Contains(out, "systemNetworks[mgmt].port  n10: 7947; n1, n2: 7946") {
		t.Errorf("%d\n%s\n%s", code, out, diag)
	}
	code, out, diag = runPlugin(t, "config", "check", "--all-nodes", "--kubectl", asKubectl(t, "\"get pods\"*) cat <<'END'\n"+threeAgents+"\nEND\n;;\n"+"*\" a1 \"*|*\" a2 \"*) "+answer(n1)))
	if code != exitFailed || !strings.Contains(out, "n10            not compared: kubectl exec: asked for") || !strings.Contains(diag, "n10 is not compared") {
		t.Errorf("%d\n%s\n%s", code, out, diag)
	}
	if code, _, diag := runIn(t, "", nil, "config", "check", "--all-nodes", n1, "-o", "yaml"); code != exitUsage {
		t.Errorf("%d %s", code, diag)
	}
}

// Founders are a set, and one set on all nodes: by two of them two groups are founded.
func TestFoundersAreCompared(t *testing.T) {
	of := func(node, founders string) effective {
		t.Helper()
		e, err := flatten(node, []byte(`{"nodeGroup": "storage", "members": {"controller": {"founders": `+founders+`}}}`))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, c := range []struct {
		founders string
		same     bool
	}{{`["n2", "n1"]`, true}, {`["n1", "n3"]`, false}, {`["n1"]`, false}} {
		v := &compared{}
		v.compare([]effective{of("n1", `["n1", "n2"]`), of("n2", c.founders)})
		if err := v.verdict(); err == nil != c.same {
			t.Errorf("%s: %v", c.founders, err)
		}
	}
}
