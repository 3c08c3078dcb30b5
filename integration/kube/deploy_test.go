package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	authorization "k8s.io/api/authorization/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
	"github.com/fencing-agent/fencing-agent/k8s"
	deathlist "github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

// These are names that deploy/manifests/minimal.yaml creates.
const (
	manifests      = "../../deploy/manifests"
	deployedSpace  = "fencing-agent"
	deployedName   = "fencing-agent-worker" // name of the DaemonSet and its service account
	groupLease     = "fencing-agent-prod-worker"
	ownLabel       = "node-manager.deckhouse.io/fencing-enabled"
	ownAnnotation  = "fencing-agent.io/address.node"
	monitoringPart = "-monitoring.yaml" // part of the name of a file whose resources need the Prometheus operator
)

func apply(t *testing.T, p *controlplane.ControlPlane, manifest string, more ...string) string {
	t.Helper()
	out, err := p.Kubectl(t.Context(), manifest, append([]string{"apply", "--server-side", "--force-conflicts", "-f", "-"}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Every manifest passes the server's validation: schemas, unknown fields, CEL of the policies, and the rules of the
// namespace.
func TestManifestsPassTheServer(t *testing.T) {
	p := plane(t)
	files, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, path := range files {
		if strings.HasSuffix(path, monitoringPart) {
			continue
		}
		passes(t, p, path)
		checked++
	}
	if checked < 2 {
		t.Errorf("only %d manifests in %s", checked, manifests)
	}
}

// passes sends a file of manifests to the server for a dry run, and returns its text.
func passes(t *testing.T, p *controlplane.ControlPlane, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A dry run creates no namespace for the rest of the file.
	for _, space := range regexp.MustCompile(`(?m)^  namespace: (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		apply(t, p, fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", space[1]))
	}
	out := apply(t, p, string(text), "--dry-run=server")
	if strings.Contains(out, "Warning:") {
		t.Errorf("%s: the server warns:\n%s", path, out)
	}
	objects, passed := strings.Count("\n"+string(text), "\nkind: "), strings.Count(out, "serverside-applied (server dry run)")
	if objects == 0 || passed != objects {
		t.Errorf("%s: %d of %d objects passed:\n%s", path, passed, objects, out)
	}
	return string(text)
}

// deployment is the minimal manifest after it was applied, with one pod of its DaemonSet on node-1.
type deployment struct {
	plane *controlplane.ControlPlane
	admin *kubernetes.Clientset
	set   *apps.DaemonSet
	pod   *core.Pod
	agent *kubernetes.Clientset // a client with the token of that pod
}

func deploy(t *testing.T) *deployment {
	t.Helper()
	p := plane(t)
	text, err := os.ReadFile(filepath.Join(manifests, "minimal.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "kind: Namespace\n") {
		apply(t, p, string(text))
	} else {
		apply(t, p, fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", deployedSpace))
		apply(t, p, string(text))
	}
	d := &deployment{plane: p, admin: client(t, p.Admin())}
	for _, name := range []string{"node-1", "node-2"} {
		newNode(t, d.admin, plainNode(name))
	}
	d.set, err = d.admin.AppsV1().DaemonSets(deployedSpace).Get(t.Context(), deployedName, meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.pod = d.newPod(t, d.set, "node-1")
	d.agent = client(t, p.As(d.token(t, d.pod)))
	return d
}

// token returns the token that the pod gets from the kubelet.
func (d *deployment) token(t *testing.T, pod *core.Pod) string {
	t.Helper()
	token, err := d.plane.ServiceAccountToken(t.Context(), pod.Namespace, deployedName, pod.Name)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// newPod creates the pod that the controller of DaemonSets and the scheduler would create.
func (d *deployment) newPod(t *testing.T, set *apps.DaemonSet, node string) *core.Pod {
	t.Helper()
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "agent-on-" + node, Namespace: deployedSpace, Labels: set.Spec.Template.Labels}, Spec: set.Spec.Template.Spec}
	pod.Spec.NodeName = node
	made, err := d.admin.CoreV1().Pods(deployedSpace).Create(t.Context(), pod, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.admin.CoreV1().Pods(deployedSpace).Delete(context.Background(), pod.Name, meta.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
			t.Error(err)
		}
	})
	return made
}

func patchNode(k *kubernetes.Clientset, node, patch string) error {
	_, err := k.CoreV1().Nodes().Patch(context.Background(), node, types.MergePatchType, []byte(patch), meta.PatchOptions{})
	return err
}

func label(key string) string { return fmt.Sprintf(`{"metadata":{"labels":{%q:"x"}}}`, key) }

func event(kind, name string) *core.Event {
	return &core.Event{
		ObjectMeta:     meta.ObjectMeta{GenerateName: "test-", Namespace: "default"},
		InvolvedObject: core.ObjectReference{APIVersion: "v1", Kind: kind, Name: name},
		Reason:         "Test", Message: "a test", Type: core.EventTypeNormal,
	}
}

func lease(name string) *coordination.Lease {
	return &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: name, Namespace: deployedSpace}}
}

// This test checks what an agent on node-1 may write, and that each of the restrictions works without the others.
func TestAgentsWriteTheirOwnOnly(t *testing.T) {
	d := deploy(t)
	ctx := t.Context()
	unbound, err := d.plane.ServiceAccountToken(ctx, deployedSpace, deployedName, "")
	if err != nil {
		t.Fatal(err)
	}
	nowhere := client(t, d.plane.As(unbound))
	createEvent := func(e *core.Event) error {
		_, err := d.agent.CoreV1().Events(e.Namespace).Create(ctx, e, meta.CreateOptions{})
		return err
	}
	createLease := func(name string) error {
		_, err := d.agent.CoordinationV1().Leases(deployedSpace).Create(ctx, lease(name), meta.CreateOptions{})
		return err
	}
	// A policy takes effect some time after it was created.
	await(t, "the policies are in force", func() bool {
		return apierrors.IsForbidden(patchNode(d.agent, "node-2", annotate(ownAnnotation, true))) &&
			apierrors.IsForbidden(createEvent(event("Node", "node-2")))
	})
	for _, c := range []struct {
		name    string
		err     error
		allowed bool
	}{
		{"own annotation of this node's Node", patchNode(d.agent, "node-1", annotate(ownAnnotation, true)), true},
		{"and away again", patchNode(d.agent, "node-1", annotate(ownAnnotation, false)), true},
		{"own label of this node's Node", patchNode(d.agent, "node-1", label(ownLabel)), true},
		{"event about this node's Node", createEvent(event("Node", "node-1")), true},
		{"annotation of another Node", patchNode(d.agent, "node-2", annotate(ownAnnotation, true)), false},
		{"label of another Node", patchNode(d.agent, "node-2", label(ownLabel)), false},
		{"the deaths that it knows", patchNode(d.agent, "node-1", annotate(deathlist.Annotation, true)), true},
		{"more deaths than are read", patchNode(d.agent, "node-1", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, deathlist.Annotation, strings.Repeat("x", deathlist.MostBytes+1))), false},
		{"deaths on another Node", patchNode(d.agent, "node-2", annotate(deathlist.Annotation, true)), false},
		{"what it sees", patchNode(d.agent, "node-1", annotate(sightings.Annotation, true)), true},
		{"more than is read", patchNode(d.agent, "node-1", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, sightings.Annotation, strings.Repeat("x", sightings.MostBytes+1))), false},
		{"what it sees, on another Node", patchNode(d.agent, "node-2", annotate(sightings.Annotation, true)), false},
		{"another annotation of the project", patchNode(d.agent, "node-1", annotate("fencing-agent.io/other", true)), false},
		{"the annotation that disarms", patchNode(d.agent, "node-1", annotate(disable, true)), false},
		{"somebody else's label", patchNode(d.agent, "node-1", label("example.com/role")), false},
		{"cordon", patchNode(d.agent, "node-1", `{"spec":{"unschedulable":true}}`), false},
		{"taint", patchNode(d.agent, "node-1", `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`), false},
		{"finalizer", patchNode(d.agent, "node-1", `{"metadata":{"finalizers":["example.com/f"]}}`), false},
		{"owner", patchNode(d.agent, "node-1", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"b"}]}}`), false},
		{"event about another Node", createEvent(event("Node", "node-2")), false},
		{"event about a pod of that name", createEvent(event("Pod", "node-1")), false},
		{"a lease, in a group that breaks no tie by one", createLease(groupLease), false},
		{"own Node with a token of no pod", patchNode(nowhere, "node-1", annotate(ownAnnotation, true)), false},
	} {
		switch {
		case c.allowed && c.err != nil:
			t.Errorf("%s: %v, want it allowed", c.name, c.err)
		case !c.allowed && !apierrors.IsForbidden(c.err):
			t.Errorf("%s: error %v, want it forbidden", c.name, c.err)
		}
	}
	// The policies restrict only agents.
	if err := patchNode(d.admin, "node-2", annotate(disable, true)); err != nil {
		t.Errorf("the administrator cannot begin maintenance: %v", err)
	}
}

// The pods need more than the baseline of Pod Security allows, and the namespace must permit that.
func TestNamespaceAdmitsThePods(t *testing.T) {
	d := deploy(t) // it creates a pod
	space, err := d.admin.CoreV1().Namespaces().Get(t.Context(), deployedSpace, meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const enforce = "pod-security.kubernetes.io/enforce"
	if got := space.Labels[enforce]; got != "privileged" {
		t.Errorf("label %s is %q: a cluster whose default is stricter would refuse the pods", enforce, got)
	}
	strict := d.pod.DeepCopy()
	strict.ObjectMeta = meta.ObjectMeta{Name: "strict", Namespace: "strict"}
	strict.Spec.ServiceAccountName, strict.Spec.DeprecatedServiceAccount = "default", ""
	apply(t, d.plane, "apiVersion: v1\nkind: Namespace\nmetadata: {name: strict, labels: {"+enforce+": baseline}}\n---\n"+
		"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default, namespace: strict}\n")
	_, err = d.admin.CoreV1().Pods("strict").Create(t.Context(), strict, meta.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodSecurity") {
		t.Errorf("a namespace of the level baseline: %v, want it refused by PodSecurity", err)
	}
}

// The agent may do only this, of everything that the server offers.
func TestAgentsMayDoNothingElse(t *testing.T) {
	d := deploy(t)
	_, lists, err := d.agent.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var allowed []string
	asked := 0
	ask := func(space, group, resource, subresource, name, verb string) {
		asked++
		review := &authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorization.ResourceAttributes{
			Namespace: space, Group: group, Resource: resource, Subresource: subresource, Name: name, Verb: verb,
		}}}
		answer, err := d.agent.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, meta.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Status.Allowed {
			allowed = append(allowed, strings.Join(slices.DeleteFunc([]string{space, verb, resource, subresource, name}, func(s string) bool { return s == "" }), " "))
		}
	}
	for _, list := range lists {
		group, _, _ := strings.Cut(list.GroupVersion, "/")
		if !strings.Contains(list.GroupVersion, "/") {
			group = ""
		}
		for _, r := range list.APIResources {
			resource, sub, _ := strings.Cut(r.Name, "/")
			spaces := []string{""}
			if r.Namespaced {
				spaces = []string{deployedSpace, "default", "kube-system"}
			}
			for _, space := range spaces {
				for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
					ask(space, group, resource, sub, "", verb)
				}
			}
		}
	}
	for _, verb := range []string{"get", "update", "patch", "delete"} {
		ask(deployedSpace, coordination.GroupName, "leases", "", groupLease, verb)
		ask("kube-system", coordination.GroupName, "leases", "", groupLease, verb)
	}
	for _, verb := range []string{"bind", "escalate"} {
		ask("", "rbac.authorization.k8s.io", "clusterroles", "", "", verb)
	}
	for _, what := range []string{"users", "groups", "serviceaccounts"} {
		ask("", "", what, "", "", "impersonate")
	}
	slices.Sort(allowed)
	// A resource may exist in several versions.
	allowed = slices.Compact(allowed)
	// Everybody may do these.
	want := []string{"create selfsubjectaccessreviews", "create selfsubjectreviews", "create selfsubjectrulesreviews"}
	for _, a := range k8s.Agent() {
		if a.Group == coordination.GroupName {
			continue // this group breaks no tie by a Lease
		}
		for _, verb := range a.Verbs {
			want = append(want, strings.TrimSpace(a.Namespace+" "+verb+" "+a.Resource))
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	if !slices.Equal(allowed, want) {
		// Strings can always be encoded.
		text, _ := json.MarshalIndent(map[string][]string{"allowed": allowed, "want": want}, "", "  ")
		t.Errorf("%s", text)
	}
	t.Logf("%d rights asked for, %d granted", asked, len(allowed))
	if asked < 500 {
		t.Errorf("only %d rights were asked for", asked)
	}
}
