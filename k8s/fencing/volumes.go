package fencing

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
)

// mounted returns the volumes with the texts and the Secrets of one method.
func mounted(m fenceconfig.Method) ([]corev1.Volume, []corev1.VolumeMount) {
	volumes := []corev1.Volume{configMap("method", m.Object), configMap("template", m.Template)}
	mounts := []corev1.VolumeMount{{Name: "method", MountPath: mountRoot + "/method", ReadOnly: true}, {Name: "template", MountPath: mountRoot + "/template", ReadOnly: true}}
	seen := map[string]bool{}
	for _, s := range m.Secrets {
		if seen[s.Secret] {
			continue
		}
		seen[s.Secret] = true
		v := corev1.SecretVolumeSource{SecretName: s.Secret}
		for _, o := range m.Secrets {
			if o.Secret == s.Secret {
				v.Items = append(v.Items, corev1.KeyToPath{Key: o.Item, Path: o.Item})
			}
		}
		name := volumeName("secret-" + s.Key)
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &v}})
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: mountRoot + "/secrets/" + s.Secret, ReadOnly: true})
	}
	return volumes, mounts
}

// planned returns one volume with the texts and the Secrets of all methods of a node: the folder plan/NUMBER has the
// content that [mounted] gives one method. All of it is optional: the executor should report what is missing, and a pod
// that does not start cannot.
func planned(methods []fenceconfig.Method) ([]corev1.Volume, []corev1.VolumeMount) {
	var sources []corev1.VolumeProjection
	text := func(object, key, path string) {
		sources = append(sources, corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: object}, Items: []corev1.KeyToPath{{Key: key, Path: path}}, Optional: ptr(true),
		}})
	}
	for i, m := range methods {
		dir := fmt.Sprint(i)
		text(m.Object, fenceconfig.MethodKey, dir+"/method/"+fenceconfig.MethodKey)
		text(m.Template, fenceconfig.TemplateKey, dir+"/template/"+fenceconfig.TemplateKey)
		seen := map[string]bool{}
		for _, s := range m.Secrets {
			path := dir + "/secrets/" + s.Secret + "/" + s.Item
			if seen[path] { // two options may have the same value
				continue
			}
			seen[path] = true
			sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: s.Secret}, Items: []corev1.KeyToPath{{Key: s.Item, Path: path}}, Optional: ptr(true),
			}})
		}
	}
	return []corev1.Volume{{Name: "plan", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}},
		[]corev1.VolumeMount{{Name: "plan", MountPath: mountRoot + "/plan", ReadOnly: true}}
}
