package vms

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/fencing-agent/fencing-agent/integration/vms/control"
	"github.com/fencing-agent/fencing-agent/k8s/fencing"
)

const (
	// kubeletEvery is the interval at which a machine is asked for its boot. Its Node stops being Ready after
	// notReadyAfter.
	kubeletEvery  = time.Second
	notReadyAfter = 10 * time.Second
	// bystanders are Nodes without machines. If two of two Nodes were not Ready, that would be a storm, in which no
	// node is fenced.
	bystanders = 6
)

// cluster is what fencing-controller's part for devices needs around it: an API server in memory, and Nodes that
// contain what the machines' kernels report. Its goroutines end with the context.
type cluster struct {
	t      *testing.T
	api    client.Client
	runner *fencing.Runner
	wg     sync.WaitGroup

	mu     sync.Mutex
	paused map[string]bool      // guarded by mu; nodes whose kubelets do not run
	turned map[string]time.Time // guarded by mu; when each Node last began or stopped being Ready
}

// Eventf drops Events.
func (c *cluster) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// newCluster creates the controller's part for devices, with its listener for crash kernels. Start the Runner only when
// all Nodes are Ready: before that it sees a storm.
func newCluster(ctx context.Context, t *testing.T, crashes func(log *slog.Logger, reg prometheus.Registerer) *fencing.Crashes) (*cluster, error) {
	c := &cluster{t: t, paused: map[string]bool{}, turned: map[string]time.Time{}}
	scheme := runtime.NewScheme()
	err := errors.Join(corev1.AddToScheme(scheme), batchv1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme), fencing.AddToScheme(scheme))
	if err != nil {
		return nil, err
	}
	uid := 0
	c.api = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			c.mu.Lock()
			uid++
			o.SetUID(types.UID(fmt.Sprint("uid-", uid)))
			c.mu.Unlock()
			return w.Create(ctx, o, opts...)
		},
	}).Build()
	const namespace = "fencing-controller"
	configs := map[string]map[string]string{
		"fence-cluster-config":      {"config.properties": "trigger_after=86400"},
		"fence-method-template-bmc": {"template.properties": "agent_name=fence_ipmilan"},
	}
	for i, node := range nodesNamed(2 + bystanders) {
		configs["fence-config-"+node] = map[string]string{"config.properties": "node_name=" + node + "\nkdump=true\npower_management=off on"}
		// Nobody runs the Jobs of these actions.
		for _, action := range []string{"off", "on"} {
			configs["fence-method-"+action+"-"+node] = map[string]string{"method.properties": fmt.Sprintf("template=fence-method-template-bmc\naction=%s\nip=192.0.2.%d", action, i+1)}
		}
	}
	for name, data := range configs {
		if err := c.api.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Data: data}); err != nil {
			return nil, err
		}
	}
	for i := range 2 + bystanders {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address(1, i+1)}}
		n.Status.NodeInfo.BootID = fmt.Sprintf("024bc581-b3a3-4be2-9d1c-01234567890%d", i)
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if i < 2 { // its kubelet will set this
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
		}
		if err := c.api.Create(ctx, n); err != nil {
			return nil, err
		}
	}
	reg := prometheus.NewRegistry()
	log := slog.New(slog.NewTextHandler(testLog{t}, nil))
	c.runner = &fencing.Runner{
		Reader: c.api, Writer: c.api, Events: c, Logger: log, Metrics: fencing.NewMetrics(reg), Now: time.Now,
		Namespace: namespace, Image: "executor:1", Self: "a", Replicas: func() []string { return []string{"a"} },
		Proven: func(string) {}, Crashes: crashes(log, reg),
	}
	return c, nil
}

// testLog writes lines into the log of a test.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Logf("        controller: %s", strings.TrimSpace(string(b)))
	return len(b), nil
}

// kubelet puts the boot of a machine into its Node while the machine answers and is not paused. It does the work of the
// kubelet and of Kubernetes' node lifecycle controller.
func (c *cluster) kubelet(ctx context.Context, s *story, node string) {
	tick := time.NewTicker(kubeletEvery)
	defer tick.Stop()
	last := time.Now()
	for {
		ask, cancel := context.WithTimeout(ctx, 3*time.Second)
		boot, err := s.machines[node].Run(ask, "cat /proc/sys/kernel/random/boot_id")
		cancel()
		c.mu.Lock()
		paused := c.paused[node]
		c.mu.Unlock()
		switch {
		case err == nil && !paused:
			last = time.Now()
			c.show(ctx, node, strings.TrimSpace(boot), true)
		case time.Since(last) > notReadyAfter:
			c.show(ctx, node, "", false)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *cluster) show(ctx context.Context, node, boot string, ready bool) {
	n := &corev1.Node{}
	if err := c.api.Get(ctx, types.NamespacedName{Name: node}, n); err != nil {
		c.t.Errorf("%s: %v", node, err)
		return
	}
	r := &n.Status.Conditions[0]
	was := r.Status
	r.Status = corev1.ConditionUnknown
	if ready {
		r.Status, r.LastHeartbeatTime, n.Status.NodeInfo.BootID = corev1.ConditionTrue, metav1.Now(), boot
	}
	if r.Status != was {
		r.LastTransitionTime = metav1.Now()
		c.mu.Lock()
		c.turned[node] = time.Now()
		c.mu.Unlock()
	}
	if err := c.api.Status().Update(ctx, n); err != nil && ctx.Err() == nil {
		c.t.Errorf("%s: %v", node, err)
	}
}

// ready returns the boot in a Ready Node; "": the Node is not Ready.
func (c *cluster) ready(node string) string {
	n := &corev1.Node{}
	if err := c.api.Get(c.t.Context(), types.NamespacedName{Name: node}, n); err != nil {
		c.t.Errorf("%s: %v", node, err)
	}
	if n.Status.Conditions[0].Status != corev1.ConditionTrue {
		return ""
	}
	return n.Status.NodeInfo.BootID
}

func (c *cluster) changed(node string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turned[node]
}

// cuts returns the names of the Jobs that were started and do more than query a device.
func (c *cluster) cuts() (names []string) {
	var list batchv1.JobList
	if err := c.api.List(c.t.Context(), &list); err != nil {
		c.t.Errorf("list Jobs: %v", err)
	}
	for _, j := range list.Items {
		args := strings.Join(j.Spec.Template.Spec.Containers[0].Args, " ")
		if !*j.Spec.Suspend && !strings.Contains(args, "--action ") {
			names = append(names, j.Name)
		}
	}
	return names
}

func (c *cluster) pause(node string, paused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused[node] = paused
}

// bootsOf returns the boots that a machine's guest has reported, oldest first.
func (s *story) bootsOf(node string) (boots []string) {
	events, _ := s.machines[node].Events()
	for _, e := range events {
		if e.Kind == control.Hello {
			boots = append(boots, e.Text)
		}
	}
	return boots
}
