package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fencing-agent/fencing-agent/k8s"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/leaseregister"
	"github.com/fencing-agent/fencing-agent/k8s/sightings"
)

// ownLabels and ownAnnotations list what the agent may change on its Node.
var ownLabels = []string{"node-manager.deckhouse.io/fencing-enabled", "node-manager.deckhouse.io/fencing-mode"}

const ownAnnotations = "fencing-agent.io/address."

// said maps the agent's other annotations to the greatest length of each.
var said = map[string]int{deaths.Annotation: deaths.MostBytes, sightings.Annotation: sightings.MostBytes}

// right describes, in one line, what a role grants or a program asks for.
func right(namespace, group, resource, verb string, named bool) string {
	return fmt.Sprintf("%s %s of group %q in namespace %q%s", verb, resource, group, namespace, map[bool]string{true: ", one by its name"}[named])
}

// wantRights compares what the roles of a manifest grant to a service account with what its program asks for.
func (m *manifest) wantRights(t *testing.T, account, namespace string, accesses []k8s.Access) {
	t.Helper()
	var have, want []string
	grant := func(b, r string, bound, rights string, subjects []rbacv1.Subject, rules []rbacv1.PolicyRule) {
		if b != r || bound != rights || !slices.Contains(subjects, rbacv1.Subject{Kind: "ServiceAccount", Name: account, Namespace: namespace}) {
			return
		}
		if rights == namespace {
			rights = k8s.OwnNamespace
		}
		for _, r := range rules {
			for _, g := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, v := range r.Verbs {
						have = append(have, right(rights, g, resource, v, len(r.ResourceNames) > 0))
					}
				}
			}
			if len(r.NonResourceURLs) > 0 {
				have = append(have, fmt.Sprintf("paths %q", r.NonResourceURLs))
			}
		}
	}
	for _, b := range m.clusterBind {
		for _, r := range m.clusterRole {
			grant(b.RoleRef.Name, r.Name, "", "", b.Subjects, r.Rules)
		}
	}
	for _, b := range m.bindings {
		for _, r := range m.roles {
			grant(b.RoleRef.Name, r.Name, b.Namespace, r.Namespace, b.Subjects, r.Rules)
		}
	}
	for _, a := range accesses {
		for _, v := range a.Verbs {
			want = append(want, right(a.Namespace, a.Group, a.Resource, v, a.Named))
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	want = slices.Compact(want)
	if !slices.Equal(have, want) {
		t.Errorf("%s grants %s:\n%s\nthe program asks for:\n%s", m.name, account, strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}

// boundToNobodyElse reports bindings of a manifest to anybody except one service account, and bindings of a role that
// is not in the manifest.
func (m *manifest) boundToNobodyElse(t *testing.T, account string) {
	t.Helper()
	only := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: controllerName}}
	for _, b := range m.clusterBind {
		there := slices.ContainsFunc(m.clusterRole, func(r *rbacv1.ClusterRole) bool { return r.Name == b.RoleRef.Name })
		if !there || !slices.Equal(b.Subjects, only) {
			t.Errorf("%s: the cluster role %s is bound to %v; it is there: %v", m.name, b.RoleRef.Name, b.Subjects, there)
		}
	}
	for _, b := range m.bindings {
		if b.RoleRef.Kind != "Role" || !slices.Equal(b.Subjects, only) {
			t.Errorf("%s: the %s %s is bound to %v", m.name, b.RoleRef.Kind, b.RoleRef.Name, b.Subjects)
		}
	}
}

// needed leaves out the rights that only a group with a Lease as its tie-breaker needs.
func (m *manifest) needed(d *appsv1.DaemonSet) []k8s.Access {
	for _, c := range m.configs {
		if c.Labels["fencing-agent.io/group"] == d.Labels["fencing-agent.io/group"] && strings.Contains(c.Data["agent.yaml"], "tieBreak: lease") {
			return k8s.Agent()
		}
	}
	return slices.DeleteFunc(k8s.Agent(), func(a k8s.Access) bool { return a.Resource == "leases" })
}

func TestRolesGrantWhatTheAgentAsksAndNoMore(t *testing.T) {
	accounts := 0
	for _, m := range load(t) {
		for _, d := range m.agents {
			account := d.Spec.Template.Spec.ServiceAccountName
			accounts++
			m.wantRights(t, account, d.Namespace, m.needed(d))
			if !*d.Spec.Template.Spec.AutomountServiceAccountToken {
				t.Errorf("%s: %s has no token", m.name, account)
			}
		}
		if len(m.agents) > 0 && len(m.accounts) != len(m.agents) {
			t.Errorf("%s: %d service accounts for %d groups", m.name, len(m.accounts), len(m.agents))
		}
	}
	if accounts == 0 {
		t.Fatal("no agents")
	}
}

// Guard: the controllers are granted exactly the rights that they ask for, verb by verb.
func TestControllerRolesAreItsAccesses(t *testing.T) {
	for _, c := range []struct {
		file, account string
		asked         []k8s.Access
	}{
		{"controller.yaml", controllerName, k8s.Recovery()},
		{"nodefence.yaml", controllerName, k8s.Fencing()},
		{"storage.yaml", "fencing-storage", k8s.Storage()},
	} {
		m := read(t, "deploy/controller/"+c.file)
		m.wantRights(t, c.account, controllerName, c.asked)
		m.boundToNobodyElse(t, c.account)
	}
	text, err := os.ReadFile(filepath.Join(root, "deploy/controller/chart/templates/members.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rest, opened := strings.CutPrefix(string(text), "{{- if (.Values.config.members).enabled }}\n")
	rest, closed := strings.CutSuffix(rest, "{{- end }}\n")
	rest = strings.ReplaceAll(rest, "{{ .Release.Namespace }}", controllerName)
	if !opened || !closed || strings.Contains(rest, "{{") {
		t.Fatal("the template is not plain YAML below one condition")
	}
	m := parse(t, "members.yaml", rest)
	m.wantRights(t, controllerName, controllerName, k8s.Members())
	m.boundToNobodyElse(t, controllerName)
}

// The role and the policy use the same name for the Lease as the agent.
func TestLeaseHasTheAgentsName(t *testing.T) {
	m, name := load(t)["lease.yaml"], leaseregister.Name("prod", "worker")
	named := slices.ContainsFunc(m.roles, func(r *rbacv1.Role) bool {
		return slices.ContainsFunc(r.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Equal(r.Resources, []string{"leases"}) && slices.Equal(r.ResourceNames, []string{name})
		})
	})
	limited := slices.ContainsFunc(m.policies, func(p *admissionv1.ValidatingAdmissionPolicy) bool {
		return slices.ContainsFunc(p.Spec.Variables, func(v admissionv1.Variable) bool {
			return v.Name == "leases" && strings.Contains(v.Expression, "'"+name+"'")
		})
	})
	if !named || !limited {
		t.Errorf("the Lease %s is named by the role: %v, by the policy: %v", name, named, limited)
	}
}

func TestNothingIsGrantedByWildcard(t *testing.T) {
	for _, m := range load(t) {
		var rules []rbacv1.PolicyRule
		for _, r := range m.clusterRole {
			rules = append(rules, r.Rules...)
		}
		for _, r := range m.roles {
			rules = append(rules, r.Rules...)
		}
		for _, r := range rules {
			if s := strings.Join(slices.Concat(r.Verbs, r.APIGroups, r.Resources), " "); strings.Contains(s, "*") {
				t.Errorf("%s: a wildcard in %q", m.name, s)
			}
		}
	}
}

// limited reports whether an enforced policy of the manifest checks the verb on the resource.
func (m *manifest) limited(group, resource string, op admissionv1.OperationType) bool {
	return slices.ContainsFunc(m.policies, func(p *admissionv1.ValidatingAdmissionPolicy) bool {
		enforced := slices.ContainsFunc(m.enforced, func(b *admissionv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == p.Name && slices.Contains(b.Spec.ValidationActions, admissionv1.Deny) && b.Spec.MatchResources == nil
		})
		return enforced && slices.ContainsFunc(p.Spec.MatchConstraints.ResourceRules, func(r admissionv1.NamedRuleWithOperations) bool {
			return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Operations, op)
		})
	})
}

// RBAC cannot say "only its own Node" or "create only this name": a policy restricts what a role leaves open.
func TestPoliciesLimitEveryWrite(t *testing.T) {
	operations := map[string]admissionv1.OperationType{"create": admissionv1.Create, "update": admissionv1.Update, "patch": admissionv1.Update, "delete": admissionv1.Delete}
	for _, m := range load(t) {
		if len(m.agents) == 0 {
			continue
		}
		for _, d := range m.agents {
			for _, a := range m.needed(d) {
				for _, verb := range a.Verbs {
					if op, writes := operations[verb]; writes && !m.limited(a.Group, a.Resource, op) {
						t.Errorf("%s: no policy limits %s %s", m.name, verb, a.Resource)
					}
				}
			}
		}
		for _, p := range m.policies {
			if *p.Spec.FailurePolicy != admissionv1.Fail {
				t.Errorf("%s: policy %s lets pass what it cannot judge", m.name, p.Name)
			}
			// Without this condition a policy would judge all writes to nodes, leases and events.
			if len(p.Spec.MatchConditions) != 1 {
				t.Fatalf("%s: policy %s has %d match conditions", m.name, p.Name, len(p.Spec.MatchConditions))
			}
			for _, d := range m.agents {
				user := "'system:serviceaccount:" + d.Namespace + ":" + d.Spec.Template.Spec.ServiceAccountName + "'"
				if !strings.Contains(p.Spec.MatchConditions[0].Expression, user) {
					t.Errorf("%s: policy %s does not concern %s", m.name, p.Name, user)
				}
			}
			for _, v := range p.Spec.Validations {
				if v.Message == "" {
					t.Errorf("%s: policy %s refuses without a message", m.name, p.Name)
				}
			}
		}
	}
}

func TestPolicyKnowsTheAgentsLabels(t *testing.T) {
	for _, m := range load(t) {
		for _, p := range m.policies {
			if !strings.HasPrefix(p.Name, "own-node.") {
				continue
			}
			var owned []string
			for _, v := range p.Spec.Variables {
				if v.Name == "owned" {
					for _, quoted := range strings.Split(strings.Trim(v.Expression, "[]"), ", ") {
						owned = append(owned, strings.Trim(quoted, "'"))
					}
				}
			}
			if !slices.Equal(owned, ownLabels) {
				t.Errorf("%s: policy %s allows %q, and the agent needs %q", m.name, p.Name, owned, ownLabels)
			}
			prefixes, told, bounded := 0, map[string]int{}, map[string]bool{}
			for _, v := range p.Spec.Validations {
				prefixes += strings.Count(v.Expression, "k.startsWith('"+ownAnnotations+"')")
				for key, most := range said {
					told[key] += strings.Count(v.Expression, "k == '"+key+"'")
					bounded[key] = bounded[key] || v.Expression == fmt.Sprintf("size(variables.annotations[?'%s'].orValue('')) <= %d", key, most)
				}
			}
			for key := range said {
				if told[key] != 2 || !bounded[key] {
					t.Errorf("%s: policy %s allows %s %d times, want 2; its length is bounded: %v", m.name, p.Name, key, told[key], bounded[key])
				}
			}
			if prefixes != 2 {
				t.Errorf("%s: policy %s names the prefix %s of the agent's annotations %d times, want 2", m.name, p.Name, ownAnnotations, prefixes)
			}
		}
	}
}
