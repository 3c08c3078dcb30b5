package k8s

// Access is one thing that a program does to objects of the API server. A list of them is the smallest role with which
// the program works; tests of integration/deploy compare the roles in deploy with these lists.
type Access struct {
	Group, Resource string // the API group is empty: core
	Verbs           []string
	Namespace       string // empty: of the cluster, or of all namespaces
	Named           bool   // only the object with the one name that the package gives
	Optional        string // the configuration key without which it is not needed; empty: always
	Why             string
}

// The namespaces in which the programs have business.
const (
	OwnNamespace     = "own"             // in which the program runs
	DefaultNamespace = "default"         // of Events about Nodes
	LeaseNamespace   = "kube-node-lease" // of the kubelets' Leases
	SystemNamespace  = "kube-system"     // of the control plane's pods
)

// Agent lists what the agent's packages ask for. The check whether the API server is
// reachable needs none of it: it takes being forbidden for an answer.
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
			Why: "k8s/marks: annotations with this node's addresses and with the deaths that its agent knows, labels; " +
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

// Recovery lists what the controller asks for to recover what dead nodes leave (k8s/reconcile).
func Recovery() []Access {
	return []Access{
		{Resource: "nodes", Verbs: []string{"get", "list", "watch"}, Why: "metadata of all, and those that matter as they are"},
		{Resource: "nodes", Verbs: []string{"patch"}, Why: "the taint out-of-service, and the annotation of a dispute"},
		{Resource: "pods", Verbs: []string{"list", "watch"}, Why: "those of a dead node; metadata of the other replicas"},
		{Resource: "pods", Verbs: []string{"delete"}, Why: "those of a dead node"},
		{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get"}, Namespace: LeaseNamespace, Why: "whether kubelets are silent"},
		{Group: "events.k8s.io", Resource: "events", Verbs: []string{"create", "patch"}, Namespace: DefaultNamespace, Why: "what is done to a node, for people"},
	}
}

// Members lists what lists of members ask for beside the recovery (cmd/fencing-controller/members).
func Members() []Access {
	return []Access{
		{Group: "authentication.k8s.io", Resource: "tokenreviews", Verbs: []string{"create"}, Optional: "members.enabled", Why: "whether the token of an agent is one"},
		{
			Resource: "configmaps", Verbs: []string{"get", "list", "watch", "create", "update"}, Namespace: OwnNamespace, Optional: "members.enabled",
			Why: "books, and what agents tell",
		},
	}
}

// Fencing lists what fencing by devices asks for beside the recovery (k8s/fencing). Secrets are not among them: the
// kubelet mounts those into the one Job that needs them.
func Fencing() []Access {
	return []Access{
		{Resource: "nodes", Verbs: []string{"get", "list"}, Why: "who is not Ready, and in which boot"},
		{Group: "fencing-agent.io", Resource: "nodefences", Verbs: []string{"get", "list", "create", "update", "delete"}, Why: "all that has to be remembered"},
		{
			Group: "fencing-agent.io", Resource: "fencingremediations", Verbs: []string{"get", "list", "update"}, Namespace: OwnNamespace,
			Why: "whom medik8s' NodeHealthCheck wants fenced",
		},
		{
			Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get", "list"}, Namespace: LeaseNamespace,
			Why: "whether the kubelet of a node that is called off is heard, and how many are not",
		},
		{Resource: "configmaps", Verbs: []string{"list"}, Namespace: OwnNamespace, Why: "how nodes are fenced"},
		{Group: "batch", Resource: "jobs", Verbs: []string{"list", "create", "patch", "delete"}, Namespace: OwnNamespace, Why: "each runs one fence agent once"},
		{Resource: "pods", Verbs: []string{"list"}, Namespace: OwnNamespace, Why: "what an executor has said"},
		{
			Resource: "pods", Verbs: []string{"list"}, Namespace: SystemNamespace,
			Why: "how many members of etcd are Ready, before a node of the control plane is fenced",
		},
	}
}

// Storage lists what storage fencing asks for (k8s/storagewatch). VolumeAttachments are deleted with cleanup delete only.
func Storage() []Access {
	return []Access{
		{Resource: "nodes", Verbs: []string{"get", "list", "patch"}, Why: "whether one is off, and the taint that keeps replacements away"},
		{Resource: "pods", Verbs: []string{"list", "delete"}, Why: "those on a node that the storage reports as offline"},
		{Resource: "persistentvolumeclaims", Verbs: []string{"get"}, Why: "which volumes they use"},
		{Resource: "persistentvolumes", Verbs: []string{"get"}, Why: "of which driver these are"},
		{Group: "storage.k8s.io", Resource: "volumeattachments", Verbs: []string{"list", "delete"}, Why: "so that a volume can be attached elsewhere"},
		{Group: "fencing-agent.io", Resource: "nodefences", Verbs: []string{"list"}, Why: "which nodes are cut off from a storage that does not know it"},
		{Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"get"}, Namespace: LeaseNamespace, Why: "whether the kubelet of one of them is heard"},
		{Group: "events.k8s.io", Resource: "events", Verbs: []string{"create", "patch"}, Why: "why a pod was deleted, or left, for people"},
	}
}
