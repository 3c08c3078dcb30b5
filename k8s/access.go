package k8s

// Access is one thing that the agent does to objects of the API server. Together they are the smallest role with
// which the agent works; a test compares the chart's role with them.
type Access struct {
	Group     string // API group; empty: core
	Resource  string
	Verbs     []string
	Namespace Namespace
	Own       bool   // only the object of this node, as an admission policy has to ensure
	Named     bool   // only the object with the one name that the package gives
	Optional  string // the configuration key without which it is not needed; empty: always
	Why       string
}

// Namespace says where the objects are.
type Namespace string

// The namespaces in which the agent has business.
const (
	ClusterScoped    Namespace = "" // no namespace at all
	AgentNamespace   Namespace = "agent"
	DefaultNamespace Namespace = "default" // of Events about Nodes
)

// Accesses lists what the agent's packages ask for. The check whether the API server is
// reachable needs none of it: it takes being forbidden for an answer.
func Accesses() []Access {
	return []Access{
		{
			Resource: "nodes", Verbs: []string{"list", "watch"}, Optional: "kubernetes.node: follow",
			Why: "k8s/ownnode: annotations, taints and deletion of this node's Node",
		},
		{
			Resource: "nodes", Verbs: []string{"list"}, Optional: "members.source: kubernetes",
			Why: "k8s/nodelist: the Nodes with the group's label",
		},
		{
			Resource: "nodes", Verbs: []string{"patch"}, Own: true, Optional: "members.source: kubernetes, or kubernetes.node: report or label",
			Why: "k8s/marks: annotations with this node's addresses and with the deaths that its agent knows, labels",
		},
		{
			Resource: "events", Verbs: []string{"create"}, Namespace: DefaultNamespace, Optional: "kubernetes.node: report or label",
			Why: "k8s/marks: Events about this node's Node",
		},
		{
			Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"create"}, Namespace: AgentNamespace, Optional: "quorum.tieBreak: lease",
			Why: "k8s/leaseregister: the Lease that breaks ties, when there is none",
		},
		{
			Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get", "update"}, Namespace: AgentNamespace, Named: true, Optional: "quorum.tieBreak: lease",
			Why: "k8s/leaseregister: that Lease",
		},
	}
}
