package reconcile

// Access is one thing that the controller does to objects of the API server. All of them together are the least role
// that it works with; the chart's roles are held to them by a test.
type Access struct {
	Group     string // API group; empty: core
	Resource  string
	Verbs     []string
	Namespace string // empty: of the cluster, or of all namespaces
	Why       string
}

// The namespaces in which the controller has business.
const (
	LeaseNamespace = "kube-node-lease"
	EventNamespace = "default" // of Events about Nodes
)

// Accesses lists what the controller asks for.
func Accesses() []Access {
	return []Access{
		{Resource: "nodes", Verbs: []string{"get", "list", "watch"}, Why: "metadata of all, and those that matter as they are"},
		{Resource: "nodes", Verbs: []string{"patch"}, Why: "the taint out-of-service, and the annotation of a dispute"},
		{Resource: "pods", Verbs: []string{"list", "watch"}, Why: "those of a dead node; metadata of the other replicas"},
		{Resource: "pods", Verbs: []string{"delete"}, Why: "those of a dead node"},
		{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get"}, Namespace: LeaseNamespace, Why: "whether kubelets are silent"},
		{Group: "events.k8s.io", Resource: "events", Verbs: []string{"create", "patch"}, Namespace: EventNamespace, Why: "what is done to a node, for people"},
	}
}
