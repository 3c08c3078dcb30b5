package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

const threeAgents = `{"items": [
 {"metadata": {"name": "a10", "namespace": "f"}, "spec": {"nodeName": "n10"}},
 {"metadata": {"name": "a1", "namespace": "f"}, "spec": {"nodeName": "n1"}},
 {"metadata": {"name": "a2", "namespace": "f"}, "spec": {"nodeName": "n2"}}
]}`

// asKubectl creates a program that answers according to the branches of a shell's case statement.
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
	// On a machine without an agent, a user of the kubectl plugin means the agent of a node in a cluster.
	if code, _, diag := runPlugin(t, "status"); code != exitUsage || !strings.Contains(diag, "NODE or --all is missing") {
		t.Errorf("%d %s", code, diag)
	}
	if code, _, diag := runIn(t, "", nil, "status", "n2", "--socket", "/x"); code != exitUsage || !strings.Contains(diag, "--socket is a path of this machine") {
		t.Errorf("%d %s", code, diag)
	}
}

// The command does not wait for a kubectl that does not answer, and the error names the time it waited.
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
	if exists(config.Default().HistoryFile()) {
		return // this machine is a node
	}
	if code, _, diag := runPlugin(t, "history"); code != exitUsage || !strings.Contains(diag, "NODE is missing") {
		t.Errorf("%d %q", code, diag)
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
	for _, want := range []string{"NODE VERDICT COUNTED", "n1 FEEDING 4 of 4, 3 needed one way: it sees n3, which does not see it n3 NOT FEEDING", "the agent stands still; n1, n2: UNREACHABLE", "n10 cannot be asked ?"} {
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
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitFailed || len(got) != 3 || !got[0].Quorum || strings.Contains(diag, "n1:") || !strings.Contains(diag, "n3: kubectl exec: fencectl: check of n2") {
		t.Errorf("%d %v\n%s\n%s", code, err, out, diag)
	}
}

// Guard: a one-way fault is reported of the node that notices it. Nothing is reported of an agent that could not be
// asked.
func TestStatusOfAllTellsOneWayFaults(t *testing.T) {
	const sees, not = "REACHABLE", "UNREACHABLE"
	lines := []agentLine{
		{Node: "n1", Sees: map[string]string{"n1": sees, "n2": not, "n3": sees}},
		{Node: "n2", Sees: map[string]string{"n1": sees, "n2": sees, "n3": "FENCED"}},
		{Node: "n3", Error: "no answer"},
	}
	findOneWay(lines)
	if got := lines[1].Trouble; !slices.Equal(got, []string{"one way: it sees n1, which does not see it"}) || len(lines[0].Trouble)+len(lines[2].Trouble) > 0 {
		t.Errorf("%+v", lines)
	}
}

func TestAgentPodsAreAskedWhereItIsTold(t *testing.T) {
	var calls []string
	ask := func(answer string, err error) func(context.Context, ...string) ([]byte, error) {
		return func(_ context.Context, args ...string) ([]byte, error) {
			calls = append(calls, strings.Join(args, " "))
			return []byte(answer), err
		}
	}
	for _, namespace := range []string{"", "fencing"} {
		pods, err := agentPods(t.Context(), ask(threeAgents, nil), namespace, "")
		if err != nil || len(pods) != 3 || pods[2].node != "n10" {
			t.Errorf("%v, %v", pods, err)
		}
	}
	prod := strings.Join((&kubeFlags{context: "prod"}).args("get", "pods"), " ")
	if calls[0] != "get pods -l "+agentSelector+" -o json --all-namespaces" || prod != "get --context prod pods" || !strings.Contains(calls[1], "--namespace fencing") {
		t.Errorf("%q, %q", calls, prod)
	}
	if _, err := agentPods(t.Context(), ask(`{"items":[]}`, nil), "", ""); err == nil || !strings.Contains(err.Error(), "there is no pod") {
		t.Errorf("%v", err)
	}
	if _, err := agentPods(t.Context(), ask("", errors.New("Forbidden")), "", ""); err == nil || err.Error() != "Forbidden" {
		t.Errorf("%v", err)
	}
}
