package kube

import (
	"net/http"
	"slices"
	"testing"
	"time"

	authorization "k8s.io/api/authorization/v1"
	coordination "k8s.io/api/coordination/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
	"github.com/fencing-agent/fencing-agent/k8s/leaseregister"
)

// user returns the name of the group's account.
func (g *tied) user() string { return "system:serviceaccount:" + g.space + ":tied" }

// denied counts the group's requests with this verb about Leases that were denied.
func (g *tied) denied(t *testing.T, verb string) int {
	t.Helper()
	all, err := g.plane.Requests(func(r controlplane.Request) bool {
		return r.User.Name == g.user() && r.Object.Resource == "leases" && r.Verb == verb && r.Response.Code == http.StatusForbidden
	})
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// deny takes a right on Leases away until give is called.
func (g *tied) deny(t *testing.T, verb string) (give func()) {
	t.Helper()
	roles := g.admin.RbacV1().Roles(g.space)
	role, err := roles.Get(t.Context(), "tied", meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	of := authorization.ResourceAttributes{Verb: verb, Group: coordination.GroupName, Resource: "leases", Namespace: g.space, Name: leaseregister.Name("tied", "four")}
	if verb == "create" {
		of.Name = "" // a request to create has no name
	}
	set := func(rules []rbac.PolicyRule, allowed bool) {
		t.Helper()
		changed := role.DeepCopy()
		changed.Rules, changed.ResourceVersion = rules, ""
		if _, err := roles.Update(t.Context(), changed, meta.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		takesEffect(t, g.admin, g.user(), allowed, of)
	}
	rest := without(role.Rules, right{verb, "leases"})
	if slices.EqualFunc(rest, role.Rules, func(a, b rbac.PolicyRule) bool { return slices.Equal(a.Verbs, b.Verbs) }) {
		t.Fatalf("there is no right to %s", verb)
	}
	set(rest, false)
	return func() { set(role.Rules, true) }
}

// Each right on the Lease is needed. Without it the Lease does not exist, is not read, or does not grant a tie to
// anybody.
func TestEachRightOnTheLeaseIsNeeded(t *testing.T) {
	g := newTied(t, "tied-rights")
	g.together(t, time.Time{})
	look := func() { g.forward(t, 10*time.Minute) }

	l := g.admin.CoordinationV1().Leases(g.space)
	await(t, "the Lease is there", func() bool { _, ok := g.holders(t); return ok })
	give := g.deny(t, "get")
	look()
	await(t, "it is not read", func() bool { return g.denied(t, "get") > 0 })
	give()

	give = g.deny(t, "create")
	if err := l.DeleteCollection(t.Context(), meta.DeleteOptions{}, meta.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	look()
	await(t, "it is not created", func() bool { return g.denied(t, "create") > 0 })
	if _, ok := g.holders(t); ok {
		t.Error("the Lease was created without the right")
	}
	give()
	look()
	await(t, "the Lease is there again", func() bool { _, ok := g.holders(t); return ok })

	g.forward(t, g.expiry+time.Second)
	give = g.deny(t, "update")
	g.split()
	if half := g.decided(t); half >= 0 {
		t.Errorf("half %d was granted the tie without the right", half)
	}
	if g.denied(t, "update") == 0 {
		t.Error("nobody tried")
	}
	give()
	g.heal(t)
	look()
	g.split()
	if g.decided(t) < 0 {
		t.Error("no half lives although the right is there again")
	}
}
