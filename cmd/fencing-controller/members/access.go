package members

// Access is one thing that lists of members ask of the API server, beside what the recovery does. Roles are held to these by a test.
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
	}
}
