package k8s

// Access is one right that a program needs: what it does to which objects of the API server. A list of them is the
// smallest role with which the program works. Tests of integration/deploy compare the roles in deploy with these lists.
type Access struct {
	Group, Resource string // the API group is empty: core
	Verbs           []string
	Namespace       string // empty: the objects of the cluster, or of all namespaces
	Named           bool   // only the object with the one name that the package gives
	Optional        string // the configuration key that makes it necessary; empty: it is always needed
	Why             string
}

// The namespaces that the programs use.
const (
	OwnNamespace     = "own"             // the namespace in which the program runs
	DefaultNamespace = "default"         // for Events about Nodes
	LeaseNamespace   = "kube-node-lease" // for the kubelets' Leases
	SystemNamespace  = "kube-system"     // for the control plane's pods
)

// Agent lists the rights that the agent's packages need. The check whether the API server is reachable needs none: a
// "forbidden" is an answer as well.
func Agent() []Access {
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
			Resource: "nodes", Verbs: []string{"patch"}, Optional: "members.source: kubernetes, or kubernetes.node: report or label",
			Why: "k8s/marks: annotations with this node's addresses and with the deaths that its agent reports, labels; " +
				"an admission policy has to ensure that it is this node's",
		},
		{
			Resource: "events", Verbs: []string{"create"}, Namespace: DefaultNamespace, Optional: "kubernetes.node: report or label",
			Why: "k8s/marks: Events about this node's Node",
		},
		{
			Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"create"}, Namespace: OwnNamespace, Optional: "quorum.tieBreak: lease",
			Why: "k8s/leaseregister: the Lease that breaks ties, when there is none",
		},
		{
			Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get", "update"}, Namespace: OwnNamespace, Named: true, Optional: "quorum.tieBreak: lease",
			Why: "k8s/leaseregister: that Lease",
		},
	}
}

// Recovery lists the rights that the controller needs to recover the workload of dead nodes (k8s/reconcile).
func Recovery() []Access {
	return []Access{
		{Resource: "nodes", Verbs: []string{"get", "list", "watch"}, Why: "the metadata of all Nodes, and the whole Node where the controller acts"},
		{Resource: "nodes", Verbs: []string{"patch"}, Why: "the taint out-of-service, and the annotation of a dispute"},
		{Resource: "pods", Verbs: []string{"list", "watch"}, Why: "the pods of a dead node; the metadata of the other replicas"},
		{Resource: "pods", Verbs: []string{"delete"}, Why: "the pods of a dead node"},
		{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get"}, Namespace: LeaseNamespace, Why: "whether kubelets are silent"},
		{Group: "events.k8s.io", Resource: "events", Verbs: []string{"create", "patch"}, Namespace: DefaultNamespace, Why: "they tell people what is done to a node"},
	}
}

// Members lists the rights that lists of members need besides those of the recovery (cmd/fencing-controller/members).
func Members() []Access {
	return []Access{
		{Group: "authentication.k8s.io", Resource: "tokenreviews", Verbs: []string{"create"}, Optional: "members.enabled", Why: "whether the token of an agent is valid"},
		{
			Resource: "configmaps", Verbs: []string{"get", "list", "watch", "create", "update"}, Namespace: OwnNamespace, Optional: "members.enabled",
			Why: "books, and the agents' reports",
		},
	}
}

// Fencing lists the rights that fencing by devices needs besides those of the recovery (k8s/fencing). Reading Secrets
// is not one of them: the kubelet mounts a Secret into the one Job that needs it.
func Fencing() []Access {
	return []Access{
		{Resource: "nodes", Verbs: []string{"get", "list"}, Why: "which nodes are not Ready, and in which boot"},
		{Group: "fencing-agent.io", Resource: "nodefences", Verbs: []string{"get", "list", "create", "update", "delete"}, Why: "they hold the state of each fencing"},
		{
			Group: "fencing-agent.io", Resource: "fencingremediations", Verbs: []string{"get", "list", "update"}, Namespace: OwnNamespace,
			Why: "which nodes medik8s' NodeHealthCheck wants fenced",
		},
		{
			Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get", "list"}, Namespace: LeaseNamespace,
			Why: "whether a kubelet renews its Lease although its node is called off, and how many Leases have run out",
		},
		{Resource: "configmaps", Verbs: []string{"list"}, Namespace: OwnNamespace, Why: "how nodes are fenced"},
		{Group: "batch", Resource: "jobs", Verbs: []string{"list", "create", "patch", "delete"}, Namespace: OwnNamespace, Why: "each runs one fence agent once"},
		{Resource: "pods", Verbs: []string{"list"}, Namespace: OwnNamespace, Why: "the result of an executor"},
		{
			Resource: "pods", Verbs: []string{"list"}, Namespace: SystemNamespace,
			Why: "how many members of etcd are Ready, before a node of the control plane is fenced",
		},
	}
}

// Storage lists the rights that storage fencing needs (k8s/storagewatch). VolumeAttachments are only deleted with
// cleanup delete.
func Storage() []Access {
	return []Access{
		{Resource: "nodes", Verbs: []string{"get", "list", "patch"}, Why: "whether a node is off, and the taint that keeps replacements away"},
		{Resource: "pods", Verbs: []string{"list", "delete"}, Why: "the pods on a node that the storage reports as offline"},
		{Resource: "persistentvolumeclaims", Verbs: []string{"get"}, Why: "which volumes these pods use"},
		{Resource: "persistentvolumes", Verbs: []string{"get"}, Why: "which driver these volumes have"},
		{Group: "storage.k8s.io", Resource: "volumeattachments", Verbs: []string{"list", "delete"}, Why: "so that a volume can be attached elsewhere"},
		{Group: "fencing-agent.io", Resource: "nodefences", Verbs: []string{"list"}, Why: "which nodes are cut off from a storage that has not noticed it"},
		{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get"}, Namespace: LeaseNamespace, Why: "whether the kubelet of such a node renews its Lease"},
		{Group: "events.k8s.io", Resource: "events", Verbs: []string{"create", "patch"}, Why: "they tell people why a pod was deleted or left alone"},
	}
}
