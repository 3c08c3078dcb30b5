package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-controller/members"
)

// Guard: what the chart grants with members.enabled is what the code asks for with it, to the verb.
func TestMembersRolesAreTheirAccesses(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "deploy/controller/chart/templates/members.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var want, have []string
	for _, a := range members.Accesses() {
		for _, v := range a.Verbs {
			want = append(want, v+" "+a.Resource+"."+a.Group+" with "+a.Key+map[bool]string{true: " in the cluster"}[a.Cluster])
		}
	}
	plain := strings.ReplaceAll(string(text), "{{ .Release.Namespace }}", controllerName)
	ifs := regexp.MustCompile(`^\{\{- if \(\.Values\.config\.members\)\.(\w+) \}\}$`)
	keys, part := []string{}, ""
	m := manifest{configs: map[string]*corev1.ConfigMap{}}
	granted := map[string][]rbacv1.PolicyRule{} // by the name of the role and the key
	keyOf := map[string]string{}
	flush := func() {
		clusterRoles, roles := len(m.clusterRole), len(m.roles)
		if strings.TrimSpace(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(part, "")) != "" {
			if err := m.add([]byte(part)); err != nil {
				t.Fatalf("%v in\n%s", err, part)
			}
		}
		key := "members." + keys[len(keys)-1]
		for _, r := range m.clusterRole[clusterRoles:] {
			granted[r.Name+" in the cluster"], keyOf[r.Name+" in the cluster"] = r.Rules, key
		}
		for _, r := range m.roles[roles:] {
			granted[r.Name], keyOf[r.Name] = r.Rules, key
		}
		part = ""
	}
	for l := range strings.Lines(plain) {
		switch l := strings.TrimSuffix(l, "\n"); {
		case ifs.MatchString(l):
			if len(keys) > 0 {
				flush()
			}
			keys = append(keys, ifs.FindStringSubmatch(l)[1])
		case l == "{{- end }}":
			flush()
			keys = keys[:len(keys)-1]
		case l == "---":
			flush()
		case strings.Contains(l, "{{"):
			t.Fatalf("not plain: %s", l)
		default:
			part += l + "\n"
		}
	}
	subject := []rbacv1.Subject{{Kind: "ServiceAccount", Name: controllerName, Namespace: controllerName}}
	add := func(role string) {
		for _, r := range granted[role] {
			for _, res := range r.Resources {
				for _, v := range r.Verbs {
					have = append(have, v+" "+res+"."+strings.Join(r.APIGroups, ",")+" with "+keyOf[role]+map[bool]string{true: " in the cluster"}[strings.HasSuffix(role, " in the cluster")])
				}
			}
			if len(r.NonResourceURLs) > 0 || len(r.ResourceNames) > 0 {
				t.Errorf("%v", r)
			}
		}
	}
	for _, b := range m.clusterBind {
		if slices.Equal(b.Subjects, subject) {
			add(b.RoleRef.Name + " in the cluster")
		}
	}
	for _, b := range m.bindings {
		if slices.Equal(b.Subjects, subject) && b.Namespace == controllerName {
			add(b.RoleRef.Name)
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("granted:\n%s\nasked for:\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}
