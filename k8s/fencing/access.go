package fencing

// Access is one right that fencing by devices needs on the API server, in addition to those of the recovery. A test
// compares the roles with these.
type Access struct {
	Group, Resource string
	Verbs           []string
	Cluster         bool // of the cluster, or of all namespaces; else of the namespace of the ConfigMaps
	Leases          bool // in kube-node-lease, and nowhere else
	System          bool // in kube-system
	Why             string
}

// Accesses lists them. Secrets are not among them: the kubelet mounts those into the one Job that needs them.
func Accesses() []Access {
	return []Access{
		{Group: "", Resource: "nodes", Verbs: []string{"get", "list"}, Cluster: true, Why: "who is not Ready, and in which boot"},
		{Group: GroupVersion.Group, Resource: "nodefences", Verbs: []string{"get", "list", "create", "update", "delete"}, Cluster: true, Why: "all that has to be remembered"},
		{Group: GroupVersion.Group, Resource: "fencingremediations", Verbs: []string{"get", "list", "update"}, Why: "whom medik8s' NodeHealthCheck wants fenced"},
		{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get", "list"}, Leases: true, Why: "whether the kubelet of a node that is called off is heard, and how many are not"},
		{Group: "", Resource: "configmaps", Verbs: []string{"list"}, Why: "how nodes are fenced"},
		{Group: "batch", Resource: "jobs", Verbs: []string{"list", "create", "patch", "delete"}, Why: "each runs one fence agent once"},
		{Group: "", Resource: "pods", Verbs: []string{"list"}, Why: "what an executor has said"},
		{Group: "", Resource: "pods", Verbs: []string{"list"}, System: true, Why: "how many members of etcd are Ready, before a node of the control plane is fenced"},
	}
}
