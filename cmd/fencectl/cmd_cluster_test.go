package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"google.golang.org/protobuf/encoding/protojson"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// fakeCluster is a kubectl of three agents: n1 and n2 in good order, of which n1 does not see n2; n3's does not answer.
func fakeCluster(t *testing.T, calls *[]string) *cluster {
	t.Helper()
	states := map[string]map[string]fencingv1.NodeState{
		"n1": {"n1": fencingv1.NodeState_NODE_STATE_REACHABLE, "n2": fencingv1.NodeState_NODE_STATE_UNREACHABLE, "n3": fencingv1.NodeState_NODE_STATE_FENCED},
		"n2": {"n1": fencingv1.NodeState_NODE_STATE_REACHABLE, "n2": fencingv1.NodeState_NODE_STATE_REACHABLE, "n3": fencingv1.NodeState_NODE_STATE_FENCED},
	}
	return &cluster{kubectl: func(_ context.Context, args ...string) ([]byte, error) {
		if calls != nil && args[0] == "get" {
			*calls = append(*calls, strings.Join(args, " "))
		}
		if args[0] == "get" {
			return []byte(`{"items":[{"metadata":{"name":"a3","namespace":"f"},"spec":{"nodeName":"n3"}},{"metadata":{"name":"a1","namespace":"f"},"spec":{"nodeName":"n1"}},{"metadata":{"name":"a2","namespace":"f"},"spec":{"nodeName":"n2"}}]}`), nil
		}
		i := slices.Index(args, "--")
		node := "n" + strings.TrimPrefix(args[i-1], "a")
		if node == "n3" {
			return nil, errKubectlSlow
		}
		st := scene(t, "healthy")
		st.Self.Name, st.Nodes = node, nil
		for _, name := range []string{"n1", "n2", "n3"} {
			st.Nodes = append(st.Nodes, &fencingv1.NodeStatus{Name: name, State: states[node][name]})
		}
		return protojson.Marshal(st)
	}}
}

// One matrix of all agents, in order, with the one-way fault marked, and with the agent that cannot be asked.
func TestClusterMatrix(t *testing.T) {
	v, err := fakeCluster(t, nil).view(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for i := range v.Agents {
		var row []string
		for _, n := range v.names() {
			row = append(row, v.cell(&v.Agents[i], n))
		}
		got = append(got, row)
	}
	if want := "[[= . F] [+! = F] [? ? ?]]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	if !slices.Equal(v.OneWay, []oneWay{{"n2", "n1"}}) || !strings.Contains(v.Agents[2].Error, "no answer within 15s") || !v.Agents[0].Quorum {
		t.Errorf("%+v", v)
	}
}

func TestClusterAsksWhereItIsTold(t *testing.T) {
	var calls []string
	c := fakeCluster(t, &calls)
	if _, err := c.view(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.namespace = "fencing"
	if _, err := c.view(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := "get pods -l " + agentSelector + " -o json --all-namespaces"
	prod := strings.Join((&kubeFlags{context: "prod"}).args("get", "pods"), " ")
	if calls[0] != first || prod != "get --context prod pods" || !strings.Contains(calls[1], "--namespace fencing") || !strings.Contains(calls[1], "-o json") {
		t.Errorf("%q", calls)
	}
	c.kubectl = func(context.Context, ...string) ([]byte, error) { return []byte(`{"items":[]}`), nil }
	if _, err := c.view(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no pod") {
		t.Errorf("%v", err)
	}
	c.kubectl = func(context.Context, ...string) ([]byte, error) { return nil, errors.New("Forbidden") }
	if _, err := c.view(t.Context()); err == nil || err.Error() != "Forbidden" {
		t.Errorf("%v", err)
	}
}

// Why an agent could not be asked is below the matrix, which stays as narrow as its names.
func TestClusterIsAsWideAsItsMatrix(t *testing.T) {
	v, err := fakeCluster(t, nil).view(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	rows := &table{tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)}
	v.rows(rows, "")
	if err := rows.tabs.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = `NODE     VERDICT          n1  n2  n3
n1       FEEDING          =   .   F
n2       FEEDING          +!  =   F
n3       cannot be asked  ?   ?   ?
n3       cannot be asked: kubectl exec: no answer within 15s
one way  n2 sees n1, which does not see n2
`
	if got := strings.ReplaceAll(b.String(), errKubectlSlow.Error(), "kubectl exec: no answer within 15s"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
