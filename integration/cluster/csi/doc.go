// Package csi is the smallest storage that Kubernetes attaches and mounts like a real one: its
// volumes are folders of the host, one node at a time has one attached.
//
//	attach/detach controller --VolumeAttachment--> csi-attacher --(gRPC)--> [Storage]   in the harness
//	kubelet --(gRPC)--> [ServeNode]                                                    in each node
//
// csi-attacher is kubernetes-csi's own (integration/cluster/cmd/attacher). [Storage] remembers who
// has what attached and when that changed, which tells of a second node better than any object of
// Kubernetes': [Storage.Changes]. It refuses a second node, as storage for one node does, and
// counts the try.
//
// A node has a volume mounted by a bind mount, and nothing takes that from a node that was
// detached: what still runs there goes on writing, as it does with storage that does not fence.
//
// # Concurrency and blocking
//
// A [Storage] may be used from any goroutine. [ServeNode] and [Storage.Serve] block until the
// context ends.
package csi
