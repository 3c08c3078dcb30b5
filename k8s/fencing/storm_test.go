package fencing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/recovery"
	"github.com/fencing-agent/fencing-agent/k8s/storm"
)

// machine is a node of a park.
type machine struct {
	name, group string
	on, cut     bool // on: its supply has power; cut: its kubelet reaches nobody
	boot        int
	upAt        time.Time // when its kubelet is Ready
	since       time.Time
	ready       bool
	fenced      string // the boot in its taint
}

func (m *machine) bootID() string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", m.boot*2+1) }

// park is several nodes with boards, two replicas that are killed between writes, and a recovery. It does not know the
// policy's code: it checks a first off by counting the API server's objects.
type park struct {
	*stage
	rng      *rand.Rand
	machines []*machine
	replicas []*replicaOf
	seed     uint64

	unhealthy, concurrent, mostDead int
	firsts, taints, ordered         int
	byHand                          map[types.UID]bool
}

// replicaOf is one replica: fencing by devices and the recovery's pace.
type replicaOf struct {
	r    *Runner
	pace *storm.Pace
	left int // writes until it is killed
}

var errKilled = errors.New("killed")

// mortal allows a number of writes.
type mortal struct {
	*park
	of *replicaOf
}

func (m mortal) write(o client.Object, do func() error) error {
	if m.of.left--; m.of.left < 0 {
		return errKilled
	}
	before := &NodeFence{}
	f, is := o.(*NodeFence)
	if is {
		_ = m.Get(context.Background(), types.NamespacedName{Name: f.Name}, before)
	}
	err := do()
	if is && err == nil {
		m.check(before, f)
	}
	return err
}

func (m mortal) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if dryRun(opts) {
		return nil
	}
	return m.write(o, func() error { return m.stage.Create(ctx, o, opts...) })
}

func (m mortal) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return m.write(o, func() error { return m.stage.Update(ctx, o, opts...) })
}

func (m mortal) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return m.write(o, func() error { return m.stage.Patch(ctx, o, p, opts...) })
}

func (m mortal) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return m.write(o, func() error { return m.stage.Delete(ctx, o, opts...) })
}

func newPark(t *testing.T, seed uint64) *park {
	p := &park{stage: newStage(t), rng: rand.New(rand.NewPCG(seed, 56)), seed: seed, byHand: map[types.UID]bool{}}
	p.objects = map[string][]byte{}
	p.unhealthy, p.concurrent, p.mostDead = 20+p.rng.IntN(80), 1+p.rng.IntN(3), 20+p.rng.IntN(80)
	p.configure("trigger_after=0", "grace_timeout=30", "settle=5", "poll_interval=2", fmt.Sprint("cooldown=", p.rng.IntN(60)),
		fmt.Sprint("max_unhealthy_percent=", p.unhealthy), fmt.Sprint("max_silent_percent=", p.unhealthy), fmt.Sprint("max_concurrent=", p.concurrent))
	p.put(&corev1.ConfigMap{ObjectMeta: p.meta("fence-method-template-bmc"), Data: map[string]string{"template.properties": "agent_name=fence_ipmilan\nip=192.0.2.4"}})
	for i := range 4 + p.rng.IntN(6) {
		m := &machine{name: fmt.Sprint("m", i), group: []string{"", "a", "b"}[p.rng.IntN(3)], on: true, ready: true, boot: 1 + i*1000, since: begin.Add(-time.Hour)}
		p.machines = append(p.machines, m)
		p.show(m)
		if p.rng.IntN(5) == 0 {
			continue // it is not managed
		}
		p.put(&corev1.ConfigMap{ObjectMeta: p.meta("fence-config-" + m.name), Data: map[string]string{"config.properties": "node_name=" + m.name + "\npower_management=off on"}})
		for _, action := range []string{"off", "on"} {
			p.put(&corev1.ConfigMap{ObjectMeta: p.meta("fence-method-" + action + "-" + m.name),
				Data: map[string]string{"method.properties": "template=fence-method-template-bmc\nplug=" + m.name + "\naction=" + action}})
		}
	}
	p.replicas = []*replicaOf{p.replica("a"), p.replica("b")}
	return p
}

func (p *park) replica(name string) *replicaOf {
	o := &replicaOf{left: 1 + p.rng.IntN(60), pace: storm.New(storm.Settings{Evicting: 100, DeletesPerSecond: 100, MaxDeadPercent: p.mostDead})}
	r := &Runner{Reader: p.r.Reader, Events: p.r.Events, Logger: p.r.Logger, Now: p.r.Now, Namespace: p.r.Namespace, Image: p.r.Image, Proven: p.r.Proven}
	o.r = r
	r.Metrics, r.Self, r.Writer = NewMetrics(prometheus.NewRegistry()), name, mortal{p, o}
	r.Replicas, r.Pause = func() []string { return []string{"a", "b"} }, 3*time.Second
	r.GroupLabel, r.MaxDeadPercent = "group", p.mostDead
	return o
}

// show writes a machine's Node and Lease.
func (p *park) show(m *machine) {
	status := corev1.ConditionUnknown
	if m.ready {
		status = corev1.ConditionTrue
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.name, UID: types.UID("uid-" + m.name), Labels: map[string]string{"group": m.group}, CreationTimestamp: metav1.NewTime(begin.Add(-9 * time.Hour))},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{BootID: m.bootID()},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(m.since)}},
		},
	}
	if m.fenced != "" {
		n.Spec.Taints = []corev1.Taint{{Key: recovery.TaintKey, Value: recovery.Fenced(m.fenced), Effect: corev1.TaintEffectNoExecute}}
	}
	p.put(n)
	if m.ready || m.on && !m.cut {
		at := metav1.NewMicroTime(p.now)
		p.put(&coordinationv1.Lease{ObjectMeta: p.meta(m.name), Spec: coordinationv1.LeaseSpec{RenewTime: &at}})
	}
}

// tick advances the time by a second.
func (p *park) tick() {
	p.now = p.now.Add(time.Second)
	burst := p.rng.IntN(200) == 0
	for _, m := range p.machines {
		switch {
		case burst && p.rng.IntN(2) == 0 || p.rng.IntN(300) == 0:
			m.cut = true
		case m.cut && p.rng.IntN(60) == 0:
			m.cut = false
		}
		if ready := m.on && !m.cut && !p.now.Before(m.upAt); ready != m.ready {
			m.ready, m.since = ready, p.now
			if ready && m.fenced != deaths.Boot(m.bootID()) {
				m.fenced = ""
			}
		}
		p.show(m)
	}
}

// recover is the recovery's barrier for nodes whose power is proven to be off.
func (p *park) recover(o *replicaOf) {
	for _, m := range p.machines {
		boot := deaths.Boot(m.bootID())
		if proven, _ := o.r.Proof(p.t.Context(), m.name, boot); !proven || m.ready || m.fenced != "" || m.group == "" {
			continue
		}
		size, dead := 0, 1
		for _, other := range p.machines {
			if other.group == m.group {
				size++
				if other != m && other.fenced != "" {
					dead++
				}
			}
		}
		if o.pace.Begin(m.name, storm.Group{Name: m.group, Size: size, Dead: dead}, p.now).Allowed {
			if m.fenced = boot; dead*100 > size*p.mostDead {
				p.bad("the recovery has begun with %s as number %d of %d", m.name, dead, size)
			}
			p.taints++
			o.pace.End(m.name)
			p.show(m)
		}
	}
}

func (p *park) bad(format string, args ...any) {
	p.t.Errorf("seed %d, %v: %s", p.seed, p.now.Sub(begin), fmt.Sprintf(format, args...))
}

func firstOff(s nodefence.Status) bool {
	for _, e := range s.Jobs {
		if e.Role == nodefence.Main && e.Action == "off" {
			return true
		}
	}
	return false
}

// check is the oracle: it counts when a NodeFence cuts a node's power for the first time.
func (p *park) check(before, f *NodeFence) {
	if before.UID == f.UID && firstOff(before.Status) || !firstOff(f.Status) {
		return
	}
	p.firsts++
	if p.byHand[f.UID] {
		p.ordered++
		return
	}
	var fences NodeFenceList
	_ = p.List(context.Background(), &fences)
	proven, running := map[string]bool{}, 0
	for _, o := range fences.Items {
		if o.Status.Phase == nodefence.Running && o.Status.Step == nodefence.Power && o.UID != f.UID && !p.byHand[o.UID] && p.now.Sub(o.Status.StartedAt) < time.Minute {
			running++
		}
		for _, m := range p.machines {
			if q := o.Status.Proof; m.name == o.Spec.NodeName && q != nil && !q.Contradicted && q.Boot == deaths.Boot(m.bootID()) {
				proven[m.name] = true
			}
		}
	}
	var subject *machine
	for _, m := range p.machines {
		if m.name == f.Spec.NodeName {
			subject = m
		}
	}
	down, all, dead, size := 0, 0, 1, 0
	for _, m := range p.machines {
		if all++; !m.ready {
			down++
		}
		if m.group == subject.group && m.group != "" {
			if size++; m != subject && (m.fenced == deaths.Boot(m.bootID()) || proven[m.name]) {
				dead++
			}
		}
	}
	switch {
	case down > 1 && down*100 > all*p.unhealthy:
		p.bad("%s is switched off while %d of %d are not Ready, at most %d %%", subject.name, down, all, p.unhealthy)
	case running >= p.concurrent:
		p.bad("%s is switched off while %d others are, at most %d", subject.name, running, p.concurrent)
	case size > 0 && subject.fenced != deaths.Boot(subject.bootID()) && !proven[subject.name] && dead*100 > size*p.mostDead:
		p.bad("%s is switched off as number %d of the dead of %d, at most %d %%", subject.name, dead, size, p.mostDead)
	}
}

// execute runs the Jobs that were started.
func (p *park) execute() {
	var list batchv1.JobList
	_ = p.List(context.Background(), &list)
	for i := range list.Items {
		j := &list.Items[i]
		if *j.Spec.Suspend || len(j.Status.Conditions) > 0 || p.rng.IntN(3) > 0 {
			continue
		}
		text, _ := json.Marshal(j)
		var m *machine
		for _, o := range p.machines {
			if strings.Contains(string(text), o.name+`"`) {
				m = o
			}
		}
		ok := true
		switch method := j.Annotations["fencing-agent.io/method"]; {
		case method == "plan":
		case strings.Contains(strings.Join(j.Spec.Template.Spec.Containers[0].Args, " "), "--action check"):
			ok = !m.on
		case method == "off":
			m.on = false
		case !m.on:
			m.on, m.boot, m.upAt = true, m.boot+1, p.now.Add(time.Duration(p.rng.IntN(40))*time.Second)
			p.show(m)
		}
		kind, word := batchv1.JobComplete, `{"ok":true,"status":"off"}`
		if !ok {
			kind, word = batchv1.JobFailed, `{"ok":false,"status":"on"}`
		}
		j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue}}
		p.put(j)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: j.Name + "-x", Labels: j.Labels, OwnerReferences: p.of(j)}, Spec: corev1.PodSpec{NodeName: "x"}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "executor", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: word}}}}
		p.put(pod)
	}
}

// Nodes fail alone and many at once. Two replicas fence and recover them, each killed between any two of its writes,
// and a person orders some fencings. No node is switched off beyond a limit, unless a person has ordered it.
func TestStormSchedules(t *testing.T) {
	base, firsts, taints, ordered := rand.Uint64(), 0, 0, 0
	enough := func() bool { return firsts-ordered >= 10 && taints >= 3 && ordered >= 1 }
	for i := uint64(0); i < 10 || !enough() && i < 100; i++ { // ten seeds may be quiet: then there are more
		p := newPark(t, base+i)
		for range 400 {
			p.tick()
			p.execute()
			if k := p.rng.IntN(6); k < 2 {
				o := p.replicas[k]
				_, _ = o.r.round(t.Context())
				p.recover(o)
				if o.left < 0 {
					p.replicas[k] = p.replica(o.r.Self)
				}
			}
			if m := p.machines[p.rng.IntN(len(p.machines))]; p.rng.IntN(200) == 0 {
				f := &NodeFence{ObjectMeta: metav1.ObjectMeta{Name: NameOf(m.name)}, Spec: nodefence.Spec{NodeName: m.name, Step: nodefence.Power}}
				if p.Create(t.Context(), f) == nil {
					p.byHand[f.UID] = true
				}
			}
		}
		firsts, taints, ordered = firsts+p.firsts, taints+p.taints, ordered+p.ordered
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("seed %d: %d times power was cut first, %d of them by order; %d barriers", base, firsts, ordered, taints)
	if !enough() {
		t.Error("too little has happened")
	}
}
