package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// root is the path of the repository from the folder of these tests.
const root = "../.."

// manifest is one file of deploy/manifests or deploy/controller.
type manifest struct {
	name        string
	namespaces  []*corev1.Namespace
	accounts    []*corev1.ServiceAccount
	configs     map[string]*corev1.ConfigMap
	services    []*corev1.Service
	agents      []*appsv1.DaemonSet
	roles       []*rbacv1.Role
	bindings    []*rbacv1.RoleBinding
	clusterRole []*rbacv1.ClusterRole
	clusterBind []*rbacv1.ClusterRoleBinding
	policies    []*admissionv1.ValidatingAdmissionPolicy
	enforced    []*admissionv1.ValidatingAdmissionPolicyBinding
	deployments []*appsv1.Deployment
	budgets     []*policyv1.PodDisruptionBudget
	networks    []*networkingv1.NetworkPolicy
	monitoring  []map[string]any // of the Prometheus operator
}

// load reads all manifests. It is an error if they contain fields that the API does not have.
func load(t *testing.T) map[string]*manifest {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "deploy/manifests/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*manifest{}
	for _, file := range files {
		m := read(t, "deploy/manifests/"+filepath.Base(file))
		all[m.name] = m
	}
	if len(all) < 3 {
		t.Fatalf("found only %d manifests", len(all))
	}
	return all
}

func read(t *testing.T, path string) *manifest {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, filepath.Base(path), string(text))
}

func parse(t *testing.T, name, text string) *manifest {
	t.Helper()
	m := &manifest{name: name, configs: map[string]*corev1.ConfigMap{}}
	for _, part := range strings.Split(text, "\n---\n") {
		if strings.TrimSpace(comment.ReplaceAllString(part, "")) == "" {
			continue
		}
		if err := m.add([]byte(part)); err != nil {
			t.Fatalf("%s: %v in\n%s", name, err, part)
		}
	}
	return m
}

var comment = regexp.MustCompile(`(?m)^#.*$`)

func (m *manifest) add(text []byte) error {
	var kind struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return err
	}
	if strings.HasPrefix(kind.APIVersion, "monitoring.coreos.com/") {
		var o map[string]any
		err := yaml.Unmarshal(text, &o)
		m.monitoring = append(m.monitoring, o)
		return err
	}
	switch kind.APIVersion + "/" + kind.Kind {
	case "v1/Namespace":
		return decode(text, &m.namespaces)
	case "v1/ServiceAccount":
		return decode(text, &m.accounts)
	case "v1/Service":
		return decode(text, &m.services)
	case "apps/v1/DaemonSet":
		return decode(text, &m.agents)
	case "apps/v1/Deployment":
		return decode(text, &m.deployments)
	case "policy/v1/PodDisruptionBudget":
		return decode(text, &m.budgets)
	case "networking.k8s.io/v1/NetworkPolicy":
		return decode(text, &m.networks)
	case "apiextensions.k8s.io/v1/CustomResourceDefinition":
		// The package whose types this file describes reads it.
		return nil
	case "rbac.authorization.k8s.io/v1/Role":
		return decode(text, &m.roles)
	case "rbac.authorization.k8s.io/v1/RoleBinding":
		return decode(text, &m.bindings)
	case "rbac.authorization.k8s.io/v1/ClusterRole":
		return decode(text, &m.clusterRole)
	case "rbac.authorization.k8s.io/v1/ClusterRoleBinding":
		return decode(text, &m.clusterBind)
	case "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy":
		return decode(text, &m.policies)
	case "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding":
		return decode(text, &m.enforced)
	case "v1/ConfigMap":
		var c []*corev1.ConfigMap
		if err := decode(text, &c); err != nil {
			return err
		}
		m.configs[c[0].Name] = c[0]
		return nil
	}
	return &unexpectedKind{kind.APIVersion, kind.Kind}
}

type unexpectedKind struct{ version, kind string }

func (e *unexpectedKind) Error() string { return "unexpected kind " + e.version + " " + e.kind }

func decode[T any](text []byte, list *[]*T) error {
	o := new(T)
	*list = append(*list, o)
	return yaml.UnmarshalStrict(text, o)
}

func TestManifestsAreReadStrictly(t *testing.T) {
	m := &manifest{configs: map[string]*corev1.ConfigMap{}}
	if err := m.add([]byte("apiVersion: apps/v1\nkind: DaemonSet\nspec: {maxUnavailable: 1}\n")); err == nil {
		t.Error("an unknown field is accepted")
	}
	if err := m.add([]byte("apiVersion: v1\nkind: Pod\n")); err == nil {
		t.Error("an unknown kind is accepted")
	}
}
