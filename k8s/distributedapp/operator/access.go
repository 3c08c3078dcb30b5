package operator

// Access is one thing that the operator asks of the API server. Its roles are held to these by a test.
type Access struct {
	Group, Resource string
	Verbs           []string
	Names           []string
	Cluster         bool
	Why             string
}

// Accesses lists them. There are no Leases: nobody leads.
func Accesses() []Access {
	return []Access{
		{Group: GroupVersion.Group, Resource: "distributedapps", Verbs: []string{"get", "list", "watch", "patch"}, Cluster: true, Why: "what is asked for, and the finalizer"},
		{Group: GroupVersion.Group, Resource: "distributedapps/status", Verbs: []string{"patch"}, Cluster: true, Why: "who has done it, and by which configuration"},
		{Resource: "pods", Verbs: []string{"list", "watch", "create", "delete"}, Cluster: true, Why: "those of the apps"},
		{Resource: "configmaps", Verbs: []string{"get", "list", "watch"}, Names: []string{ConfigMap}, Why: "the operator's configuration"},
	}
}
