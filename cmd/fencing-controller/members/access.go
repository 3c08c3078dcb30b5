package members

// Access is one right that lists of members need on the API server, in addition to those of the recovery. A test
// compares the roles with these.
type Access struct {
	Group, Resource string
	Verbs           []string
	Cluster         bool   // of the cluster; else of the namespace of the controller
	Key             string // the key of the configuration without which it is not needed
	Why             string
}

// Accesses lists them.
func Accesses() []Access {
	return []Access{
		{Group: "authentication.k8s.io", Resource: "tokenreviews", Verbs: []string{"create"}, Cluster: true, Key: "members.enabled", Why: "whether the token of an agent is one"},
		{Group: "", Resource: "configmaps", Verbs: []string{"get", "list", "watch", "create", "update"}, Key: "members.enabled", Why: "books, and what agents tell"},
	}
}
