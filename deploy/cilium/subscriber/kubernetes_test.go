package subscriber

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/hive/cell"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	k8sclient "github.com/cilium/cilium/pkg/k8s/client"
	slimclient "github.com/cilium/cilium/pkg/k8s/slim/k8s/client/clientset/versioned"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

// controlPlaneEnv names the program of the control plane, if it is not the one that make test-kube builds.
const controlPlaneEnv = "FENCING_KUBETEST"

// newControlPlane starts an etcd and a kube-apiserver with the namespace of the services. It
// skips the test if their program, which takes minutes to build, is missing.
func newControlPlane(t testing.TB) *controlplane.ControlPlane {
	t.Helper()
	binary := os.Getenv(controlPlaneEnv)
	if binary == "" {
		binary = "../../../bin/kubetest"
	}
	if _, err := os.Stat(binary); err != nil {
		t.Skipf("no control plane: %v: make test-kube builds it, %s names another one", err, controlPlaneEnv)
	}
	folder, err := os.MkdirTemp("", "fencing-cilium-")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	plane, err := controlplane.Start(ctx, controlplane.Config{
		Binary: binary, Dir: folder, Flags: []string{"--service-cluster-ip-range=10.96.0.0/12"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log("logs of the control plane are in", folder)
			return
		}
		os.RemoveAll(folder)
	})
	admin, err := kubernetes.NewForConfig(plane.Admin())
	if err != nil {
		t.Fatal(err)
	}
	// The server creates this namespace soon after it is ready, and Cilium's client does not start without it.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err = admin.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{}); err == nil {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "test"}}
	if _, err := admin.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return plane
}

// newBalancerWith makes a balancer whose client is Cilium's own, connected to this API server.
func newBalancerWith(t testing.TB, plane *controlplane.ControlPlane, set map[string]string) *balancer {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := plane.WriteKubeconfig(kubeconfig, plane.URL(), plane.Admin().BearerToken); err != nil {
		t.Fatal(err)
	}
	set["k8s-kubeconfig-path"] = kubeconfig
	writer := plane.Admin() // without the request limit of Cilium's client
	writer.ContentType = "application/vnd.kubernetes.protobuf"
	slim, err := slimclient.NewForConfig(writer)
	if err != nil {
		t.Fatal(err)
	}
	b := newBalancerOn(t, func(*balancer) cell.Cell { return k8sclient.Cell }, set)
	b.slim = slim
	return b
}

// TestBeforeKubernetesKnows: Services and EndpointSlices of a real API server reach the maps
// by Cilium's reflector; LEFT takes a node's backends out while the API still has them, and
// also while there is no API; JOIN puts back what Kubernetes has by then.
func TestBeforeKubernetesKnows(t *testing.T) {
	plane := newControlPlane(t)
	lb := newBalancerWith(t, plane, map[string]string{"lb-test-fault-probability": "0", "fencing-agent-hold": "1m"})
	const services, nodes = 3, 10 // each service has one backend on each node
	names := []string{ownNode}
	for i := range nodes {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	if err := lb.agent.start(names...); err != nil {
		t.Fatal(err)
	}
	if err := lb.hive.Start(lb.log, t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= services; i++ { // the first address is that of the API server's own service
		lb.addService(t, i, nodes, false)
	}
	want := func(what string, backends int) {
		t.Helper()
		t.Log(what)
		lb.until(t, backends)
		if got := lb.inMaps(t); got != backends {
			t.Fatalf("%s: %d backends are in the maps, want %d", what, got, backends)
		}
	}
	want("all are in", 30)

	lb.agent.publish(fencingv1.EventType_LEFT, "n0")
	want("n0 is out", 27)
	if got := lb.endpointsOn(t, services, "n0"); got != services {
		t.Fatalf("the API has %d endpoints on n0, want %d: not LEFT took them out of the maps", got, services)
	}
	lb.updateSlice(t, 1, nodes, perService-1) // without the one on n9
	want("Kubernetes removes another one", 26)
	lb.updateSlice(t, 1, nodes, perService)
	want("Kubernetes adds it again", 27)

	if err := plane.KillServer(); err != nil {
		t.Fatal(err)
	}
	lb.agent.publish(fencingv1.EventType_LEFT, "n1")
	want("n1 is out without an API server", 24)
	lb.agent.publish(fencingv1.EventType_JOIN, "n0")
	want("n0 is in without an API server", 27)

	if err := plane.StartServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := lb.endpointsOn(t, services, "n1"); got != services {
		t.Fatalf("the API has %d endpoints on n1, want %d", got, services)
	}
	// Only a change in Kubernetes shows that its view arrives again; n1 stays out even then.
	lb.updateSlice(t, 1, nodes, perService-1)
	want("Kubernetes, back again, removes one", 26)
	lb.agent.publish(fencingv1.EventType_JOIN, "n1")
	want("n1 is in", 29)

	lb.agent.publish(fencingv1.EventType_LEFT, "n8")
	want("n8 is out", 26)
	lb.updateSlice(t, 1, nodes, perService-2)
	lb.agent.publish(fencingv1.EventType_JOIN, "n8")
	want("n8 is in but for the endpoint that Kubernetes has removed meanwhile", 28)
}

// endpointsOn returns the number of endpoints on the node that the API has for the services 1 to last.
func (b *balancer) endpointsOn(t testing.TB, last int, node string) (count int) {
	t.Helper()
	for i := 1; i <= last; i++ {
		slice, err := b.slim.DiscoveryV1().EndpointSlices("test").Get(t.Context(), fmt.Sprintf("echo%d-1", i), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range slice.Endpoints {
			if e.NodeName != nil && *e.NodeName == node {
				count++
			}
		}
	}
	return count
}
