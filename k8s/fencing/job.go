package fencing

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
)

const (
	executorAccount = "fencing-executor"
	mountRoot       = "/etc/fencing"
	// executorContainer is the container whose result counts: some clusters add containers to pods.
	executorContainer = "executor"
	messagePath       = "/dev/termination-log"
	// madeVariable contains the time at which a Job was created, by the clock of the controller that created it.
	madeVariable = "FENCING_MADE_AT"
	keepJobs     = 24 * 60 * 60 // s
	nobody       = 65532
)

// job returns the Job of an action: suspended, for one executor that runs once, on another node than the one to be
// fenced.
func (r *Runner) job(a nodefence.Action, owner *NodeFence) *batchv1.Job {
	labels := map[string]string{ownerLabel: string(owner.UID), "app.kubernetes.io/name": executorAccount}
	digest, action := a.Method.Digest(), ""
	volumes, mounts := mounted(a.Method)
	switch a.Role {
	case nodefence.Check, nodefence.Again:
		action = "check"
	case nodefence.Plan:
		digest, action = fenceconfig.DigestOf(a.Methods), "plan"
		volumes, mounts = planned(a.Methods)
	}
	args := []string{
		"run", "--dir", mountRoot, "--message", messagePath, "--not-after", a.NotAfter.UTC().Format(time.RFC3339),
		"--digest", digest, "--node", owner.Spec.NodeName,
	}
	if action != "" {
		args = append(args, "--action", action)
	}
	pod := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: executorAccount, AutomountServiceAccountToken: ptr(false),
		PriorityClassName: fenceconfig.ExecutorPriority, NodeSelector: r.Selector, Affinity: away(owner.Spec.NodeName, a.Avoid), Volumes: volumes,
		TerminationGracePeriodSeconds: ptr(int64(1)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr(true), RunAsUser: ptr(int64(nobody)), RunAsGroup: ptr(int64(nobody)), FSGroup: ptr(int64(nobody)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: executorContainer, Image: r.Image, ImagePullPolicy: corev1.PullIfNotPresent, Args: args, VolumeMounts: mounts,
			// It is a variable because an older executor would refuse an unknown argument.
			Env:                    []corev1.EnvVar{{Name: madeVariable, Value: a.NotAfter.Add(-a.Timeout).UTC().Format(time.RFC3339)}},
			TerminationMessagePath: messagePath, Resources: resources(),
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		}},
	}
	r.places.tolerate(&pod)
	if a.Method.HostDevices {
		onDevices(&pod, a.Method.Action, owner.Spec.NodeName)
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: a.Name, Namespace: r.Namespace, Labels: labels,
			Annotations: map[string]string{
				notAfterAnnotation: a.NotAfter.UTC().Format(time.RFC3339), "fencing-agent.io/node": owner.Spec.NodeName, "fencing-agent.io/method": a.Method.Name,
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: GroupVersion.String(), Kind: "NodeFence", Name: owner.Name, UID: owner.UID, Controller: ptr(true)}},
		},
		Spec: batchv1.JobSpec{
			Suspend: ptr(true), BackoffLimit: ptr(int32(0)), Parallelism: ptr(int32(1)), Completions: ptr(int32(1)),
			ActiveDeadlineSeconds: ptr(int64(a.Timeout / time.Second)), TTLSecondsAfterFinished: ptr(int32(keepJobs)),
			PodReplacementPolicy: ptr(batchv1.Failed),
			Template:             corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}
}

// onDevices gives an executor the devices of its machine, and the file in which fence agents for reservations keep the
// key of that machine. An on registers the machine on which it runs, so it runs on the node that gets its storage back.
func onDevices(pod *corev1.PodSpec, action, node string) {
	for _, dir := range []struct {
		name, path string
		kind       corev1.HostPathType
	}{{"dev", "/dev", corev1.HostPathDirectory}, {"cluster", "/run/cluster", corev1.HostPathDirectoryOrCreate}} {
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "host-" + dir.name, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: dir.path, Type: &dir.kind},
		}})
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "host-" + dir.name, MountPath: dir.path})
	}
	pod.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr(int64(0)), RunAsGroup: ptr(int64(0))}
	pod.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr(true)}
	if action == fenceconfig.On {
		pod.Affinity = only(node)
		pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		pod.NodeSelector = nil
	}
}

// only binds a pod to one node.
func only(node string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}},
	}}}
}

// away keeps a pod from the node that is fenced. It prefers nodes where no Job has failed yet, but does not require
// them: a small cluster soon has no such node.
func away(fenced string, failed []string) *corev1.Affinity {
	a := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{notOn(fenced)}}}
	if len(failed) > 0 {
		a.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: notOn(failed...)}}
	}
	return &corev1.Affinity{NodeAffinity: a}
}

// notOn matches all nodes except these.
func notOn(names ...string) (t corev1.NodeSelectorTerm) {
	for _, n := range names { // the Values of one requirement must have only one name
		t.MatchFields = append(t.MatchFields, corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{n}})
	}
	return t
}

func configMap(volume, name string) corev1.Volume {
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
	}}
}

// volumeName makes a valid name from an option's name.
func volumeName(s string) string {
	b := []byte(s)
	for i, c := range b {
		switch {
		case c >= 'A' && c <= 'Z':
			b[i] = c + 'a' - 'A'
		case c == '_':
			b[i] = '-'
		}
	}
	return string(b[:min(len(b), 60)]) + "-v"
}

func ptr[T any](v T) *T { return &v }

func uidOf(s string) *types.UID { return ptr(types.UID(s)) }
