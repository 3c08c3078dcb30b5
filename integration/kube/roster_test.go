package kube

import (
	"fmt"
	"path/filepath"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
	agentclient "github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/nodelist"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// A large group is read completely: exactly, in pages, and at once from the server's cache, which contains a change
// soon after.
func TestRosterOfALargeGroup(t *testing.T) {
	p := plane(t)
	u := newAgentUser(t, p, "roster", "list")
	const members = 600 // more than fit on a page
	for i := range members + 3 {
		n := plainNode(fmt.Sprintf("large-%d", i))
		n.Labels = map[string]string{groupLabel: "large"}
		if i >= members {
			n.Labels[groupLabel] = "other"
		}
		newNode(t, u.admin, n)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := p.WriteKubeconfig(path, p.URL(), u.token); err != nil {
		t.Fatal(err)
	}
	c, err := agentclient.New(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := c.For(agentclient.Core)
	if err != nil {
		t.Fatal(err)
	}
	s, err := nodelist.New(nodelist.Config{
		Client: nodes, Label: groupLabel, Group: "large", Networks: []nodelist.Network{{Name: "node", Port: 7946}}, Clock: boottime.Now,
		Present: func() []roster.Member { return nil }, OnList: func([]roster.Member, boottime.Instant) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	exact, err := s.Read(t.Context(), false)
	if err != nil || len(exact) != members {
		t.Errorf("%d nodes, error %v, want %d", len(exact), err, members)
	}
	pages := u.count(t, "list", 0)
	if pages < 2 {
		t.Errorf("%d requests, want several pages", pages)
	}
	if err := u.admin.CoreV1().Nodes().Delete(t.Context(), "large-0", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if exact, err = s.Read(t.Context(), false); err != nil || len(exact) != members-1 {
		t.Errorf("%d nodes after a deletion, error %v, want %d: an exact read is never behind", len(exact), err, members-1)
	}
	await(t, "the server's cache contains the deletion", func() bool {
		cached, err := s.Read(t.Context(), true)
		return err == nil && len(cached) == members-1
	})
	refused, err := p.Requests(func(r controlplane.Request) bool { return r.User.Name == u.name && r.Response.Code >= 400 })
	if err != nil || len(refused) > 0 {
		t.Errorf("refused: %v, error %v", refused, err)
	}
}
