package deploy

import (
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

// agent is a DaemonSet together with the configuration that it mounts.
type agent struct {
	*appsv1.DaemonSet
	where string
	pod   corev1.PodSpec
	c     corev1.Container
	cfg   *config.Config
}

// inPod is the environment of a pod of the group's first member.
func inPod(node string) func(string) string {
	return func(key string) string {
		return map[string]string{"NODE_NAME": node, "KUBERNETES_SERVICE_HOST": "10.96.0.1", "NODE_IP": nodeIP}[key]
	}
}

// nodeIP is status.hostIP of the pods.
const nodeIP = "10.9.9.9"

func agents(t *testing.T) []*agent {
	t.Helper()
	var all []*agent
	for _, m := range load(t) {
		for _, d := range m.agents {
			a := &agent{DaemonSet: d, where: m.name + ": " + d.Name, pod: d.Spec.Template.Spec}
			if len(a.pod.Containers) != 1 || len(a.pod.InitContainers) > 0 {
				t.Fatalf("%s has containers other than the agent's", a.where)
			}
			a.c = a.pod.Containers[0]
			i := slices.IndexFunc(a.pod.Volumes, func(v corev1.Volume) bool { return v.Name == "config" })
			text := m.configs[a.pod.Volumes[i].ConfigMap.Name].Data["agent.yaml"]
			cfg, warnings, err := config.Parse("agent.yaml", []byte(text), inPod("node-1"))
			if err != nil && strings.Contains(err.Error(), "does not list this node") {
				cfg, warnings, err = config.Parse("agent.yaml", []byte(text), inPod("node-5"))
			}
			if err != nil {
				t.Fatalf("%s: the agent refuses its configuration: %v\n%s", a.where, err, text)
			}
			for _, w := range warnings {
				t.Errorf("%s: the agent warns about its configuration: %v", a.where, w)
			}
			a.cfg = cfg
			all = append(all, a)
		}
	}
	if len(all) < 4 {
		t.Fatalf("found only %d agents", len(all))
	}
	return all
}

// mounted reports whether path lies in a folder of the host that is mounted at the same path.
func (a *agent) mounted(path string) bool {
	for _, m := range a.c.VolumeMounts {
		if !strings.HasPrefix(path, m.MountPath+"/") {
			continue
		}
		for _, v := range a.pod.Volumes {
			if v.Name == m.Name && v.HostPath != nil && v.HostPath.Path == m.MountPath && !m.ReadOnly {
				return true
			}
		}
	}
	return false
}

// needsDevices reports whether the agent opens device nodes.
func (a *agent) needsDevices() bool {
	return a.cfg.Watchdog.Driver != config.DriverNone || len(a.cfg.LUN.Devices) > 0
}

func TestAgentsReachWhatTheyUse(t *testing.T) {
	for _, a := range agents(t) {
		if !a.pod.HostNetwork {
			t.Errorf("%s: not in the network of the host: its gossip would say nothing about the node's networks", a.where)
		}
		for _, path := range []string{a.cfg.API.Socket, a.cfg.Watchdog.DisableFile, a.cfg.Members.CacheFile} {
			if !a.mounted(path) {
				t.Errorf("%s: %s is not on the host", a.where, path)
			}
		}
		if key := a.cfg.Gossip.KeyFile; key != "" && !slices.ContainsFunc(a.c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return strings.HasPrefix(key, m.MountPath+"/") && m.SubPath == ""
		}) {
			t.Errorf("%s: %s is not mounted as a folder, so that a new key would never come", a.where, key)
		}
		for _, m := range a.c.VolumeMounts {
			if m.SubPath != "" {
				t.Errorf("%s: mount %s has a subPath: it would never be updated", a.where, m.Name)
			}
		}
		plugin := len(a.c.Resources.Limits) > 0
		privileged := *a.c.SecurityContext.Privileged
		switch {
		case privileged != (a.needsDevices() && !plugin):
			t.Errorf("%s: privileged is %v, device nodes needed %v, device plugin %v", a.where, privileged, a.needsDevices(), plugin)
		case privileged && !a.mounted("/dev/mapper/fence"):
			t.Errorf("%s: /dev is not the host's", a.where)
		case !privileged && a.mounted("/dev/mapper/fence"):
			t.Errorf("%s: /dev is the host's, and need not be", a.where)
		case plugin && len(a.cfg.LUN.Devices) > 0:
			t.Errorf("%s: a device plugin with a LUN: the lock on the device node would not work", a.where)
		}
	}
}

// A missing LUN, device link or socket must not prevent the agent from starting. Without the agent the watchdog would
// not be armed, and the node would be unguarded.
func TestNothingMissingKeepsAnAgentFromStarting(t *testing.T) {
	for _, a := range agents(t) {
		for _, v := range a.pod.Volumes {
			if v.HostPath == nil {
				continue
			}
			switch kind := *v.HostPath.Type; {
			case v.HostPath.Path == "/dev" && kind == corev1.HostPathDirectory:
			case strings.HasPrefix(v.HostPath.Path, "/dev"):
				t.Errorf("%s: hostPath %s: a device by its name may be away; mount /dev as Directory", a.where, v.HostPath.Path)
			case kind != corev1.HostPathDirectoryOrCreate:
				t.Errorf("%s: hostPath %s of type %s may be missing", a.where, v.HostPath.Path, kind)
			}
		}
	}
}

func TestAgentsRunWhereAndWhenNothingElseDoes(t *testing.T) {
	for _, a := range agents(t) {
		if a.pod.PriorityClassName != "system-node-critical" {
			t.Errorf("%s: priority class %q: the agent could be evicted", a.where, a.pod.PriorityClassName)
		}
		if !slices.ContainsFunc(a.pod.Tolerations, func(x corev1.Toleration) bool {
			return x.Operator == corev1.TolerationOpExists && x.Key == "" && x.Effect == "" && x.TolerationSeconds == nil
		}) {
			t.Errorf("%s: some taint would drive the agent away", a.where)
		}
		if a.pod.DNSPolicy != corev1.DNSDefault {
			t.Errorf("%s: dnsPolicy %s depends on the cluster's DNS", a.where, a.pod.DNSPolicy)
		}
		if _, limited := a.c.Resources.Limits[corev1.ResourceCPU]; limited {
			t.Errorf("%s: a CPU limit: an agent that is throttled is a node that is reset", a.where)
		}
		if _, limited := a.c.Resources.Limits[corev1.ResourceMemory]; limited {
			t.Errorf("%s: a memory limit: an agent that is killed is a node that is reset", a.where)
		}
		if got := a.Spec.Template.Spec.NodeSelector; len(got) == 0 {
			t.Errorf("%s: no node selector: the groups would overlap", a.where)
		}
		if path := a.c.TerminationMessagePath; strings.HasPrefix(path, "/dev") {
			t.Errorf("%s: termination message in %s, which is the host's", a.where, path)
		}
		if !slices.Contains(a.c.Args, "--config=/etc/fencing-agent/config/agent.yaml") {
			t.Errorf("%s: arguments %q", a.where, a.c.Args)
		}
	}
}

// An agent that restarts is missing from its group. Two at once could be half of the group.
func TestRolloutsTakeOneNodeAtATime(t *testing.T) {
	for _, a := range agents(t) {
		u := a.Spec.UpdateStrategy
		if u.Type != appsv1.RollingUpdateDaemonSetStrategyType || u.RollingUpdate.MaxUnavailable.String() != "1" || u.RollingUpdate.MaxSurge.String() != "0" {
			t.Errorf("%s: update strategy %+v", a.where, u)
		}
		if ready := time.Duration(a.Spec.MinReadySeconds) * time.Second; ready < 2*a.cfg.EvidenceMaxAge() {
			t.Errorf("%s: minReadySeconds %v is less than twice D_max = %v: the next agent would restart before the peers count this one again", a.where, ready, a.cfg.EvidenceMaxAge())
		}
		if r := a.c.ReadinessProbe; r == nil || r.HTTPGet.Path != "/readyz" {
			t.Errorf("%s: the rollout does not wait for the quorum", a.where)
		}
		// A planned stop waits for at most five seconds for each of gossip, LUN, watchdog and clients.
		if grace := *a.pod.TerminationGracePeriodSeconds; grace < 30 {
			t.Errorf("%s: an agent would be killed after %d s, in the middle of a planned stop, and leave its watchdog armed", a.where, grace)
		}
	}
}

// The kubelet must not kill an agent because of the watchdog's decision or because quorum is lost.
func TestLivenessWaitsForTheWatchdog(t *testing.T) {
	for _, a := range agents(t) {
		l := a.c.LivenessProbe
		if l == nil || l.HTTPGet.Path != "/healthz" {
			t.Errorf("%s: liveness is not /healthz: %+v", a.where, l)
			continue
		}
		patience := time.Duration(l.PeriodSeconds*l.FailureThreshold) * time.Second
		if worst := 2*a.cfg.Watchdog.Timeout + a.cfg.Watchdog.FeedInterval; patience <= worst {
			t.Errorf("%s: killed after %v without an answer, but the watchdog may take %v", a.where, patience, worst)
		}
		if a.c.StartupProbe != nil {
			t.Errorf("%s: a startup probe would kill an agent that waits", a.where)
		}
		for _, p := range []*corev1.Probe{l, a.c.ReadinessProbe} {
			if p == nil {
				continue
			}
			host, port, err := net.SplitHostPort(a.cfg.HTTP.Address)
			if err != nil {
				t.Fatal(err)
			}
			if host == nodeIP { // the kubelet uses the pod's address if none is given
				host = ""
			}
			if p.HTTPGet.Host != host || p.HTTPGet.Port.String() != "http" || a.c.Ports[0].Name != "http" || port != itoa(a.c.Ports[0].ContainerPort) {
				t.Errorf("%s: probe of %s:%s, the agent listens on %s", a.where, p.HTTPGet.Host, p.HTTPGet.Port.String(), a.cfg.HTTP.Address)
			}
		}
	}
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }

var pinned = regexp.MustCompile(`^[^ ]+(:[A-Za-z0-9_][A-Za-z0-9_.-]*|@sha256:[0-9a-f]{64})$`)

func TestImagesAreSpelledOut(t *testing.T) {
	for _, a := range agents(t) {
		if !pinned.MatchString(a.c.Image) || strings.HasSuffix(a.c.Image, ":latest") {
			t.Errorf("%s: image %q may change by itself", a.where, a.c.Image)
		}
		if a.c.ImagePullPolicy != corev1.PullIfNotPresent {
			t.Errorf("%s: pull policy %s: the agent could not start while the registry is away", a.where, a.c.ImagePullPolicy)
		}
	}
}

func TestAgentsGiveUpWhatTheyDoNotNeed(t *testing.T) {
	for _, a := range agents(t) {
		s := a.c.SecurityContext
		if !*s.ReadOnlyRootFilesystem || a.pod.HostPID || a.pod.HostIPC || *a.pod.EnableServiceLinks {
			t.Errorf("%s: more of the host than needed: %+v", a.where, s)
		}
		if *s.Privileged {
			continue
		}
		if *s.AllowPrivilegeEscalation || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: an unprivileged agent is not confined: %+v", a.where, s)
		}
		feeds := a.cfg.Watchdog.Driver != config.DriverNone
		for _, c := range []corev1.Capability{"IPC_LOCK", "SYS_NICE", "SYS_RESOURCE"} {
			if slices.Contains(s.Capabilities.Add, c) != feeds {
				t.Errorf("%s: capability %s, feeds a watchdog: %v", a.where, c, feeds)
			}
		}
	}
}

func TestNamespaceLetsAgentsIn(t *testing.T) {
	found := 0
	for _, m := range load(t) {
		for _, n := range m.namespaces {
			found++
			if n.Labels["pod-security.kubernetes.io/enforce"] != "privileged" {
				t.Errorf("%s: namespace %s refuses the agents: %v", m.name, n.Name, n.Labels)
			}
		}
	}
	if found == 0 {
		t.Error("no manifest creates its namespace")
	}
}
