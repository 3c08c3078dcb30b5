package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
)

// fakeKubectl is a program whose answer depends on its arguments.
const fakeKubectl = `#!/bin/sh
case "$*" in
*"get nodes"*) cat <<'END'
{"items": [
 {"metadata": {"name": "node-1", "annotations": {"fencing-agent.io/deaths": "[{\"node\":\"node-4\",\"boot\":\"024bc581b3a34be3\",\"proof\":\"sentence\",\"at\":\"2026-03-01T12:00:13Z\"}]"}}},
 {"metadata": {"name": "node-2", "annotations": {"fencing-agent.io/deaths": "[{\"node\":\"node-4\",\"boot\":\"111bc581b3a34be3\",\"proof\":\"time\",\"at\":\"2026-02-01T12:00:13Z\"}]"}}},
 {"metadata": {"name": "node-3"}},
 {"metadata": {"name": "node-4"}, "spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "value": "fenced-024bc581b3a34be3", "effect": "NoExecute"}]},
  "status": {"nodeInfo": {"bootID": "024bc581-b3a3-4be2-8000-000000000000"}, "conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": "2026-03-01T12:00:12Z"}]}}
]}
END
;;
*"get configmaps"*) cat <<'END'
{"items": [
 {"metadata": {"name": "fencing-deaths-node-3", "labels": {"fencing-agent.io/members": "deaths"}}, "data": {"deaths.json": "{\"version\":1,\"node\":\"node-3\",\"boot\":\"324bc581b3a34be3\",\"at\":1,\"heard\":\"HEARD\",\"deaths\":[{\"node\":\"node-4\",\"boot\":\"024bc581b3a34be3\",\"proof\":\"sentence\",\"at\":\"2026-03-01T12:00:14Z\"}]}"}}
]}
END
;;
"get events --namespace default -o json") cat <<'END'
{"items": [
 {"involvedObject": {"kind": "Node", "name": "node-4"}, "reason": "NodeReleased", "message": "its pods are gone; the taint stays until the node is back in another boot", "reportingComponent": "fencing-controller", "eventTime": "2026-03-01T11:59:15Z", "series": {"count": 2, "lastObservedTime": "2026-03-01T12:00:15.5Z"}},
 {"involvedObject": {"kind": "Node", "name": "node-4"}, "reason": "NodeNotReady", "message": "not of ours", "reportingComponent": "node-controller", "eventTime": "2026-03-01T12:00:11Z"},
 {"involvedObject": {"kind": "Node", "name": "node-4"}, "reason": "BarrierSet", "message": "the barrier is set", "reportingComponent": "fencing-controller", "eventTime": "2026-03-01T12:00:14Z"}
]}
END
;;
"get nodefences.fencing-agent.io --all-namespaces -o json") cat <<'END'
{"items": [
 {"spec": {"nodeName": "node-3"}, "status": {"step": "recovery"}},
 {"metadata": {"name": "node-fence-node-4", "creationTimestamp": "2026-03-01T12:00:01Z"}, "spec": {"nodeName": "node-4", "boot": "024bc581b3a34be3"},
  "status": {"step": "power_management", "phase": "error", "stepStartedAt": "2026-03-01T12:00:02Z", "phaseEndedAt": "2026-03-01T12:00:09.5Z", "retries": 1, "message": "a method failed",
  "jobs": [{"method": "apc", "action": "off", "state": "failed", "startedAt": "2026-03-01T12:00:03Z"}], "proof": {"kind": "power", "at": "2026-03-01T12:00:08Z", "contradicted": true}}}
]}
END
;;
*fencingremediations*) echo "error: the server doesn't have a resource type \"fencingremediations\"" >&2; exit 1 ;;
*"get volumeattachments"*) cat <<'END'
{"items": [
 {"metadata": {"name": "csi-1", "deletionTimestamp": "2026-03-01T12:00:16Z"}, "spec": {"nodeName": "node-4", "attacher": "csi.example.com", "source": {"persistentVolumeName": "pv-1"}}},
 {"metadata": {"name": "csi-2"}, "spec": {"nodeName": "node-3", "attacher": "csi.example.com", "source": {"persistentVolumeName": "pv-2"}}},
 {"metadata": {"name": "csi-3"}, "spec": {"nodeName": "node-4", "attacher": "csi.example.com", "source": {"persistentVolumeName": "pv-3"}}, "status": {"detachError": {"message": "the array does not answer"}}}
]}
END
;;
*"get persistentvolumes"*) echo '{"items": [{"metadata": {"name": "pv-1"}, "spec": {"claimRef": {"namespace": "shop", "name": "data-db-0"}}}]}' ;;
*"get pods --namespace shop"*) echo '{"items": [{"metadata": {"name": "db-0"}, "spec": {"volumes": [{"name": "tmp"}, {"persistentVolumeClaim": {"claimName": "data-db-0"}}]}}]}' ;;
*"get pods"*) echo '{"items": [{"metadata": {"name": "controller-a"}}, {"metadata": {"name": "controller-b"}}, {"metadata": {"name": "controller-c"}}]}' ;;
*controller-a*) printf 'NODE    PHASE     SINCE  DETAIL\nnode-4  released  3s     its pods are gone; the taint stays until the node is back in another boot; called dead by 2 Nodes\n' ;;
*controller-b*) echo 'no Node is called dead' ;;
*) echo 'Error from server (Forbidden): pods "controller-c" is forbidden' >&2; exit 1 ;;
esac
`

const explained = `node         node-4, boot 024bc581b3a34be3, Ready Unknown
taint        fenced-024bc581b3a34be3: pods are taken off, and none is started in a new boot
called dead  by node-1 at 12:00:13, proof sentence, this boot
called dead  by node-2 at 12:00:13, proof time, another boot, 111bc581b3a34be3
called dead  by node-3 at 12:00:14, proof sentence, this boot, told to fencing-controller
devices      power_management error, 1 retries, proof power, contradicted: a method failed
volume       pv-1 (claim shop/data-db-0), which shop/db-0 wants, is attached here, and waits for the attacher of csi.example.com, which was asked at 12:00:16
volume       pv-3 is attached here, and waits for kube-controller-manager, which has not asked for the detach: the array does not answer
controller   controller-a: released 3s its pods are gone; the taint stays until the node is back in another boot; called dead by 2 Nodes
controller   controller-b: does nothing about it
controller   controller-c: no answer: kubectl get: Error from server (Forbidden): pods "controller-c" is forbidden

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

func TestExplain(t *testing.T) {
	program := filepath.Join(t.TempDir(), "kubectl")
	heard := func(ago time.Duration) {
		text := strings.ReplaceAll(fakeKubectl, "HEARD", time.Now().Add(-ago).UTC().Format(time.RFC3339))
		if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	heard(time.Minute)
	env := map[string]string{"TZ": "UTC"}
	code, out, diag := runIn(t, "", env, "explain", "node-4", "--kubectl", program)
	if code != exitOK || out != explained {
		t.Errorf("exit %d, %s\n%s", code, diag, out)
	}
	heard(time.Hour)
	if code, out, _ := runIn(t, "", env, "explain", "node-4", "--kubectl", program); code != exitOK || !strings.Contains(out, "that it counts no longer\n") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if code, _, diag := runIn(t, "", env, "explain", "node-5", "--kubectl", program); code != exitFailed || !strings.Contains(diag, "there is no Node node-5") {
		t.Errorf("exit %d, %s", code, diag)
	}
	if code, _, diag := runIn(t, "", env, "explain", "node-4", "--kubectl", program+"-none"); code != exitFailed || !strings.Contains(diag, "no such file") {
		t.Errorf("exit %d, %s", code, diag)
	}
	if !strings.Contains(guide(t), "```\n"+explained+"```\n") {
		t.Error("docs/fencectl.md does not show what is printed: copy explained there")
	}
	// Without NODE the command shows the events of all nodes, also in the form for programs.
	_, happened, _ := strings.Cut(explained, "\n\n")
	if code, out, diag := runIn(t, "", env, "explain", "--kubectl", program); code != exitOK || !strings.HasSuffix(out, "\n"+happened[strings.Index(happened, "2026-03"):]) || strings.Contains(out, "called dead") || !strings.Contains(out, "node-3  NodeFence") {
		t.Errorf("exit %d, %s\n%s", code, diag, out)
	}
	if code, out, diag := runIn(t, "", env, "explain", "-o", "json", "--kubectl", program); code != exitOK || !strings.Contains(out, `"what": "BarrierSet"`) || !strings.Contains(out, `"from": "node-3"`) {
		t.Errorf("exit %d, %s\n%s", code, diag, out)
	}
}

// Guard: a replica on the dead node delays no other answer, and an answer that cannot be read is not taken for none.
func TestExplainAsksAtOnce(t *testing.T) {
	both := make(chan struct{}, 2)
	x := &explainer{namespace: "c", kubectl: func(_ context.Context, args ...string) ([]byte, error) {
		switch {
		case args[1] == "nodes":
			return []byte(`{"items": [{"metadata": {"name": "node-4", "annotations": {"fencing-agent.io/deaths": "{"}}}, {"metadata": {"name": "node-5"}}]}`), nil
		case args[1] == "nodefences.fencing-agent.io", args[1] == "fencingremediations.fencing-agent.io": // no device fences nodes in that cluster
			return nil, errors.New("kubectl get: error: the server doesn't have a resource type \"nodefences\"")
		case args[1] == "events", args[1] == "configmaps", args[1] == "volumeattachments":
			return []byte(`{}`), nil
		case args[1] == "pods":
			return []byte(`{"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}`), nil
		case strings.Contains(args[2], "/b:"): // this replica is answered first
			both <- struct{}{}
			return []byte("node-4  held  3s  no Lease\n"), nil
		}
		select {
		case <-both:
		case <-time.After(time.Minute):
			t.Error("the second replica is asked after the first")
		}
		return nil, errKubectlSlow
	}}
	e, err := x.explain(t.Context(), "node-4")
	if err != nil || len(e.Errors) > 0 {
		t.Fatal(err, e.Errors)
	}
	if want := []replicaSay{{"a", "no answer within 15s"}, {"b", "held 3s no Lease"}}; !slices.Equal(e.Replicas, want) {
		t.Errorf("%v, want %v", e.Replicas, want)
	}
	var b strings.Builder
	rows := &table{tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)}
	e.rows(rows, time.UTC)
	if err := rows.tabs.Flush(); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(text, "by node-4? its annotation fencing-agent.io/deaths cannot be read") || strings.Contains(text, "nobody") || strings.Contains(text, "devices") {
		t.Error(text)
	}
}

// Guard: a request that fails hides nothing else, and is never taken for "there is none".
func TestExplainTellsWhatItCouldNotAsk(t *testing.T) {
	program := filepath.Join(t.TempDir(), "kubectl")
	const refusing = `#!/bin/sh
case "$*" in
*"get nodes"*) echo '{"items": [{"metadata": {"name": "node-4"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}]}' ;;
*) echo "Error from server (Forbidden): $2 is forbidden" >&2; exit 1 ;;
esac
`
	if err := os.WriteFile(program, []byte(refusing), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, _, diag := runIn(t, "", nil, "explain", "node-4", "--kubectl", program+".none"); code != exitFailed || !strings.Contains(diag, "--kubectl") {
		t.Errorf("without kubectl: exit %d, %q", code, diag)
	}
	_, narrow, _ := runIn(t, "", map[string]string{"COLUMNS": "80"}, "explain", "node-4", "--kubectl", program)
	above, _, _ := strings.Cut(narrow, "\n\n")
	for line := range strings.Lines(above) {
		if len(line) > 81 || len(line) < 13 || line[0] != ' ' && line[12] != ' ' {
			t.Errorf("not in 80 columns:\n%s", narrow)
			break
		}
	}
	code, out, diag := runIn(t, "", nil, "explain", "node-4", "--kubectl", program)
	if strings.Join(strings.Fields(narrow), " ") != strings.Join(strings.Fields(out), " ") {
		t.Errorf("in 80 columns it says something else:\n%s\n%s", narrow, out)
	}
	if code != exitFailed {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{
		"Ready Unknown", "by others? what agents have told fencing-controller cannot be read: kubectl get: Error from server (Forbidden): configmaps", "devices      unknown, its NodeFence cannot be read: kubectl get: Error from server (Forbidden): nodefences",
		"controller   unknown: kubectl get: Error from server (Forbidden): pods is forbidden", "events       unknown: kubectl get: Error from server (Forbidden): events",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if !strings.Contains(diag, "could not ask for everything") || strings.Contains(out, "no replica") || strings.Contains(out, "by nobody") {
		t.Error(diag)
	}
	if code, out, _ := runIn(t, "", nil, "explain", "node-4", "--kubectl", program, "-o", "json"); code != exitFailed || strings.Count(out, "is forbidden") != 7 {
		t.Errorf("exit %d\n%s", code, out)
	}
}

func TestExplainedTaint(t *testing.T) {
	const boot, earlier = "024bc581b3a34be3", "024bc581b3a34be2"
	for taint, want := range map[string]string{
		recovery.Fenced(boot): "pods are taken off", recovery.Fenced(earlier): "an earlier boot", recovery.Disputed(boot): "the boot may run",
		recovery.Disputed(earlier): "comes off by itself", "nodeshutdown": "somebody else's", "": "without a value: somebody else's",
	} {
		if got := (&explanation{Boot: boot, Tainted: true, Taint: taint}).taint(); !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", taint, got, want)
		}
	}
	for note, want := range map[string]string{boot: "was heard", "324bc581b3a34be3": "an earlier boot"} {
		if got := (&explanation{Boot: boot, Disputed: note}).dispute(); !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", note, got, want)
		}
	}
	if got := (&explanation{Boot: boot}).taint(); !strings.HasPrefix(got, "none") {
		t.Errorf("no taint: %q", got)
	}
}

// If a limit for storms holds up a NodeFence, the command names the limit, and what happens next.
func TestExplainHeldUp(t *testing.T) {
	x := &explainer{kubectl: func(context.Context, ...string) ([]byte, error) {
		return []byte(`{"items": [{"spec": {"nodeName": "n4"}, "status": {"step": "isolation", "phase": "new", "message": "waits", "conditions": [
			{"type": "PolicyAllows", "status": "False", "reason": "TooManyUnhealthy", "message": "5 of 10"}]}}]}`), nil
	}}
	e := &explanation{Node: "n4"}
	if err := x.fences(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	rows := &table{tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)}
	e.rows(rows, time.UTC)
	if err := rows.tabs.Flush(); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(text, "isolation new, 0 retries, proof none yet: 5 of 10") || !strings.Contains(text, "held up      by TooManyUnhealthy") {
		t.Error(text)
	}
}

// For a node that is lost, but not reported dead, the command shows the report of another node's agent, and how to be
// faster.
func TestExplainOutlook(t *testing.T) {
	x := &explainer{kubectl: func(_ context.Context, args ...string) ([]byte, error) {
		switch {
		case args[1] == "nodes":
			return []byte(`{"items": [{"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}]}`), nil
		case args[0] == "exec" && slices.Contains(args, "a1"):
			t.Error("the agent of the node itself is asked")
		case args[0] == "exec" && slices.Contains(args, "a2"):
			return nil, errKubectlSlow
		case args[0] == "exec":
			st := scene(t, "healthy")
			st.Self.Name, st.Verdict.Quorum = "n3", true
			st.Nodes = []*fencingv1.NodeStatus{{Name: "n1", State: fencingv1.NodeState_NODE_STATE_UNREACHABLE, ProvenIn: durationpb.New(112 * time.Second)}, {Name: "n3"}}
			return protojson.Marshal(st)
		case args[1] == "pods" && slices.Contains(args, agentSelector):
			return []byte(`{"items": [{"metadata": {"name": "a1"}, "spec": {"nodeName": "n1"}}, {"metadata": {"name": "a2"}, "spec": {"nodeName": "n2"}}, {"metadata": {"name": "a3"}, "spec": {"nodeName": "n3"}}]}`), nil
		}
		return []byte(`{}`), nil
	}}
	e, err := x.explain(t.Context(), "n1")
	if err != nil || len(e.Errors) > 0 {
		t.Fatal(err, e.Errors)
	}
	var b strings.Builder
	rows := &table{tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)}
	e.rows(rows, time.UTC)
	if err := rows.tabs.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"called dead  by nobody", "dead for certain in 1m52s at the earliest (as n3 sees it)", "confirm-dead", "a NodeFence"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, b.String())
		}
	}
}
