package access

// Scope is where the objects of a permission are.
type Scope int

const (
	// Cluster is for objects without a namespace.
	Cluster Scope = iota
	// Namespace is that of the agent's pod.
	Namespace
	// EventNamespace is where events about objects without a namespace are kept.
	EventNamespace
)

// Permission is one thing that the agent asks of the API server.
type Permission struct {
	Scope    Scope
	Group    string // "" is the core group
	Resource string
	Verbs    []string
	// Named says that the role names the one object; the verb create cannot be bound to a name
	// by a role, and an admission policy does that.
	Named bool
	Why   string
}

// Permissions returns all of them. What is not listed must be denied.
func Permissions() []Permission {
	return []Permission{
		{Cluster, "", "nodes", []string{"get", "list", "watch"}, false, "the members of the group, and the own Node's annotations, taints and deletion"},
		{Cluster, "", "nodes", []string{"patch"}, false, "labels and annotations of the own Node; an admission policy refuses all others"},
		{EventNamespace, "", "events", []string{"create"}, false, "what happened to the own Node"},
		{Namespace, "coordination.k8s.io", "leases", []string{"get", "update"}, true, "the lease that breaks ties of the group"},
		{Namespace, "coordination.k8s.io", "leases", []string{"create"}, false, "that lease, the first time"},
	}
}

// AnnotationPrefix begins the annotations of its Node that the agent may change. The
// admission policy of the chart lets it change these, [OwnLabels], and nothing else.
const AnnotationPrefix = "fencing-agent.io/"

// OwnLabels are the labels of its Node that the agent may change.
func OwnLabels() []string {
	return []string{"node-manager.deckhouse.io/fencing-enabled", "node-manager.deckhouse.io/fencing-mode"}
}
