// Package csi is the smallest storage that Kubernetes attaches and mounts like a real one. Its volumes are folders of
// the host, and each is attached to at most one node at a time.
//
//	attach/detach controller --VolumeAttachment--> csi-attacher --(gRPC)--> [Storage]   in the harness
//	kubelet --(gRPC)--> [ServeNode]                                                    in each node
//
// csi-attacher is the one of kubernetes-csi (integration/cluster/cmd/attacher). [Storage] records which volume is
// attached to which node, and when that changed ([Storage.Changes]). That reveals a second node more reliably than
// any Kubernetes object. Like storage for one node, it refuses a second node, and it counts the attempt.
//
// A node mounts a volume by a bind mount, and detaching does not remove that mount. A process that still runs there
// continues to write, as with storage that does not fence.
//
// # Concurrency and blocking
//
// A [Storage] may be used from any goroutine. [ServeNode] and [Storage.Serve] block until the context ends.
package csi
