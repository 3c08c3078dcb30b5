package subscriber

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/statedb/reconciler"

	slimcorev1 "github.com/cilium/cilium/pkg/k8s/slim/k8s/api/core/v1"
	slimdiscoveryv1 "github.com/cilium/cilium/pkg/k8s/slim/k8s/api/discovery/v1"
	slimmetav1 "github.com/cilium/cilium/pkg/k8s/slim/k8s/apis/meta/v1"
	"github.com/cilium/cilium/pkg/loadbalancer"
	lbmaps "github.com/cilium/cilium/pkg/loadbalancer/maps"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// BenchmarkToMaps measures the time from the agent's decision, which is published on its socket, until the last map of
// the load balancer is written, for LEFT and for JOIN. For comparison it also measures the time from one EndpointSlice
// in the API to the maps. Every service has one backend on each of ten nodes. The API is faked, except where the case
// names a real one.
func BenchmarkToMaps(b *testing.B) {
	for _, size := range []toMaps{
		{services: 100, nodes: 10}, {services: 1000, nodes: 100}, {services: 1000, nodes: 10}, {services: 100, nodes: 10, maglev: true},
		{services: 100, nodes: 10, realAPI: true},
	} {
		b.Run(fmt.Sprintf("backends=%d/nodes=%d/maglev=%v/realAPI=%v", size.services*perService, size.nodes, size.maglev, size.realAPI), size.measure)
	}
}

const perService = 10

// toMaps is one case of [BenchmarkToMaps].
type toMaps struct {
	services, nodes int
	maglev, realAPI bool
}

// build starts the load balancer and its agent, with all services in the maps.
func (size toMaps) build(b *testing.B) *balancer {
	set := map[string]string{"fencing-agent-hold": "1m", "lb-test-fault-probability": "0"}
	if size.maglev {
		set["bpf-lb-algorithm"], set["bpf-lb-maglev-table-size"] = "maglev", "16381"
	}
	var lb *balancer
	if size.realAPI {
		lb = newBalancerWith(b, newControlPlane(b), set)
	} else {
		lb = newBalancer(b, set)
	}
	names := []string{ownNode}
	for i := range size.nodes {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	if err := lb.agent.start(names...); err != nil {
		b.Fatal(err)
	}
	if err := lb.hive.Start(lb.log, b.Context()); err != nil {
		b.Fatal(err)
	}
	for i := 1; i <= size.services; i++ {
		lb.addService(b, i, size.nodes, size.maglev)
	}
	lb.until(b, size.services*perService)
	return lb
}

func (size toMaps) measure(b *testing.B) {
	lb := size.build(b)
	total := size.services * perService
	onOne := total / size.nodes
	var left, join, slice, busy []time.Duration
	for n := 0; b.Loop(); n++ {
		before := processorTime(b)
		left = append(left, lb.took(b, total-onOne, func() { lb.agent.publish(fencingv1.EventType_LEFT, "n0") }))
		busy = append(busy, processorTime(b)-before)
		if got := lb.inMaps(b); got != total-onOne {
			b.Fatalf("%d backends are in the maps, want %d", got, total-onOne)
		}
		join = append(join, lb.took(b, total, func() { lb.agent.publish(fencingv1.EventType_JOIN, "n0") }))
		if n < 5 {
			slice = append(slice, lb.took(b, total-1, func() { lb.updateSlice(b, 1, size.nodes, perService-1) }))
			lb.took(b, total, func() { lb.updateSlice(b, 1, size.nodes, perService) })
		}
	}
	report := func(name string, times []time.Duration) {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(times[len(times)-1].Microseconds())/1000, name+"-max-ms")
	}
	report("left", left)
	report("left-processor", busy)
	report("join", join)
	report("slice", slice)
}

// processorTime returns the processor time that the process has used so far. On a busy machine it is a better measure
// than elapsed time.
func processorTime(t testing.TB) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// took returns the time from the change until the frontends have this number of backends and all of them are in the
// maps.
func (b *balancer) took(t testing.TB, backends int, change func()) time.Duration {
	began := time.Now()
	change()
	b.until(t, backends)
	return time.Since(began)
}

func (b *balancer) until(t testing.TB, backends int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		txn := b.writer.ReadTxn()
		frontends, watch := b.writer.Frontends().AllWatch(txn)
		count, pending := 0, 0
		for fe := range frontends {
			if fe.Status.Kind != reconciler.StatusKindDone {
				pending++
			}
			if pending > 0 {
				continue // counting backends is expensive, and only the final count matters
			}
			if fe.Type != loadbalancer.SVCTypeClusterIP {
				continue // the same backends again
			}
			for range fe.Backends {
				count++
			}
		}
		if count == backends && pending == 0 {
			return
		}
		select {
		case <-watch:
		case <-time.After(time.Until(deadline)):
			t.Fatalf("gave up: the frontends have %d backends, want %d; %d are not in the maps", count, backends, pending)
		}
	}
}

func (b *balancer) inMaps(t testing.TB) (count int) {
	if err := b.maps.DumpBackend(func(lbmaps.BackendKey, lbmaps.BackendValue) { count++ }); err != nil {
		t.Fatal(err)
	}
	return count
}

func (b *balancer) addService(t testing.TB, i, nodes int, external bool) {
	port := slimcorev1.ServicePort{Name: "http", Port: 80, Protocol: slimcorev1.ProtocolTCP}
	svc := &slimcorev1.Service{
		ObjectMeta: slimmetav1.ObjectMeta{Name: fmt.Sprintf("echo%d", i), Namespace: "test"},
		Spec: slimcorev1.ServiceSpec{
			Type: slimcorev1.ServiceTypeClusterIP, ClusterIP: address(96, i), ClusterIPs: []string{address(96, i)}, Ports: []slimcorev1.ServicePort{port},
		},
	}
	if external { // only these get tables of Maglev
		svc.Spec.Type = slimcorev1.ServiceTypeLoadBalancer
		svc.Status.LoadBalancer.Ingress = []slimcorev1.LoadBalancerIngress{{IP: address(97, i)}}
	}
	if _, err := b.slim.CoreV1().Services("test").Create(context.Background(), svc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.slim.DiscoveryV1().EndpointSlices("test").Create(context.Background(), endpointSlice(i, nodes, perService), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (b *balancer) updateSlice(t testing.TB, i, nodes, backends int) {
	slices, slice := b.slim.DiscoveryV1().EndpointSlices("test"), endpointSlice(i, nodes, backends)
	old, err := slices.Get(context.Background(), slice.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slice.ResourceVersion = old.ResourceVersion
	if _, err := slices.Update(context.Background(), slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// endpointSlice puts the backends of service i on consecutive nodes.
func endpointSlice(i, nodes, backends int) *slimdiscoveryv1.EndpointSlice {
	yes, name, port, protocol := true, "http", int32(80), slimcorev1.ProtocolTCP
	slice := &slimdiscoveryv1.EndpointSlice{
		ObjectMeta: slimmetav1.ObjectMeta{
			Name: fmt.Sprintf("echo%d-1", i), Namespace: "test", Labels: map[string]string{slimdiscoveryv1.LabelServiceName: fmt.Sprintf("echo%d", i)},
		},
		AddressType: slimdiscoveryv1.AddressTypeIPv4,
		Ports:       []slimdiscoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	for k := range backends {
		node := fmt.Sprintf("n%d", (i*perService+k)%nodes)
		slice.Endpoints = append(slice.Endpoints, slimdiscoveryv1.Endpoint{
			Addresses: []string{address(200, i*perService+k)}, Conditions: slimdiscoveryv1.EndpointConditions{Ready: &yes}, NodeName: &node,
		})
	}
	return slice
}

func address(second, i int) string { return fmt.Sprintf("10.%d.%d.%d", second, i/250, 1+i%250) }
