package storagewatch

// Access is one thing that storage fencing asks of the API server. Its role is held to these by a test.
type Access struct {
	Group, Resource string
	Verbs           []string
	Leases          bool // in kube-node-lease, and nowhere else; all other things of the cluster, or of all namespaces
	Why             string
}

// Accesses lists them. VolumeAttachments are deleted with cleanup delete only.
func Accesses() []Access {
	return []Access{
		{Resource: "nodes", Verbs: []string{"get", "list", "patch"}, Why: "whether one is off, and the taint that keeps replacements away"},
		{Resource: "pods", Verbs: []string{"list", "delete"}, Why: "those on a node that the storage has given up"},
		{Resource: "persistentvolumeclaims", Verbs: []string{"get"}, Why: "which volumes they use"},
		{Resource: "persistentvolumes", Verbs: []string{"get"}, Why: "of which driver these are"},
		{Group: "storage.k8s.io", Resource: "volumeattachments", Verbs: []string{"list", "delete"}, Why: "so that a volume can be attached elsewhere"},
		{Group: "fencing-agent.io", Resource: "nodefences", Verbs: []string{"list"}, Why: "which nodes are cut off from a storage that does not know it"},
		{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get"}, Leases: true, Why: "whether the kubelet of one of them is heard"},
		{Group: "events.k8s.io", Resource: "events", Verbs: []string{"create", "patch"}, Why: "why a pod was deleted, or left, for people"},
	}
}
