package members

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fencing-agent/fencing-agent/k8s/fencing"
	"github.com/fencing-agent/fencing-agent/k8s/grouppolicy"
)

// nodeGroupVersion is that of the NodeGroups of Deckhouse.
var nodeGroupVersion = schema.GroupVersion{Group: "deckhouse.io", Version: "v1"}

// Access is one thing that lists of members and policies ask of the API server, beside what the recovery does. Roles are held to
// these by a test.
type Access struct {
	Group, Resource string
	Verbs           []string
	Cluster         bool   // of the cluster; else of the namespace of the controller
	Key             string // of the configuration, without which it is not asked for
	Why             string
}

// Accesses lists them.
func Accesses() []Access {
	return []Access{
		{Group: "authentication.k8s.io", Resource: "tokenreviews", Verbs: []string{"create"}, Cluster: true, Key: "members.enabled", Why: "whether the token of an agent is one"},
		{Group: "", Resource: "configmaps", Verbs: []string{"get", "list", "watch", "create", "update"}, Key: "members.enabled", Why: "books, and what agents tell"},
		{Group: fencing.GroupVersion.Group, Resource: "fencinggroups", Verbs: []string{"list"}, Cluster: true, Key: "members.fencingGroups", Why: "with what agents should run"},
		{Group: fencing.GroupVersion.Group, Resource: "fencinggroups/status", Verbs: []string{"update"}, Cluster: true, Key: "members.fencingGroups", Why: "which of them do not"},
		{Group: nodeGroupVersion.Group, Resource: "nodegroups", Verbs: []string{"list"}, Cluster: true, Key: "members.nodeGroups", Why: "the same, where Deckhouse has its word"},
	}
}

// Groups is the API server as PolicyStore.
type Groups struct {
	*Cluster
	Own        bool // FencingGroups are read
	NodeGroups bool // those of Deckhouse are read
}

var _ PolicyStore = (*Groups)(nil)

// ErrNotServed says that the API server knows of no FencingGroups.
var ErrNotServed = errors.New("the CustomResourceDefinition of FencingGroups is not there: apply crds/fencinggroups.yaml of the chart " +
	"(helm upgrade does not), or set members.fencingGroups to false")

// notServed reports whether the API server has said that there is no such resource; it may well be away, which is another error.
func notServed(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// longestProblem bounds what is said of a NodeGroup: the error quotes what it has found.
const longestProblem = 200

// Policies implements PolicyStore. A cluster without NodeGroups has none.
func (c *Groups) Policies(ctx context.Context) (groups []Group, nodeGroups []grouppolicy.Object, err error) {
	var absent error
	if c.Own {
		var list fencing.FencingGroupList
		switch err := c.Reader.List(ctx, &list); {
		case notServed(err):
			absent = ErrNotServed
		case err != nil:
			return nil, nil, fmt.Errorf("list FencingGroups: %w", err)
		}
		for i := range list.Items {
			g := &list.Items[i]
			groups = append(groups, Group{Object: grouppolicy.Object{Name: g.Name, Spec: g.Spec}, Version: g.ResourceVersion, Status: g.Status})
		}
	}
	if !c.NodeGroups {
		return groups, nil, absent
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(nodeGroupVersion.WithKind("NodeGroupList"))
	err = c.Reader.List(ctx, list)
	if notServed(err) {
		return groups, nil, absent
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list NodeGroups: %w", err)
	}
	for i := range list.Items {
		nodeGroups = append(nodeGroups, nodeGroup(&list.Items[i]))
	}
	return groups, nodeGroups, absent
}

// nodeGroup is what a NodeGroup says in spec.fencing: of the keys that FencingGroup has, too, those that Deckhouse has.
func nodeGroup(u *unstructured.Unstructured) grouppolicy.Object {
	o := grouppolicy.Object{Name: u.GetName()}
	said, there, err := unstructured.NestedMap(u.Object, "spec", "fencing")
	if err == nil && there {
		var text []byte
		if text, err = json.Marshal(said); err == nil {
			err = json.Unmarshal(text, &o.Spec)
		}
	}
	if err != nil {
		return grouppolicy.Object{Name: o.Name, Problem: fmt.Sprintf("spec.fencing: %.*s", longestProblem, err.Error())}
	}
	o.Spec.Group = ""
	return o
}

// WriteStatus implements PolicyStore.
func (c *Groups) WriteStatus(ctx context.Context, g *Group, s *grouppolicy.Status) error {
	o := &fencing.FencingGroup{Spec: g.Spec, Status: *s}
	o.Name, o.ResourceVersion = g.Name, g.Version
	err := c.Writer.Status().Update(ctx, o)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ErrConflict
	}
	return err
}
