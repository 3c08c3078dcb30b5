// Package csi is the smallest storage that Kubernetes attaches and mounts like a real one: its
// volumes are folders of the host, one node at a time has one attached.
//
//	attach/detach controller --VolumeAttachment--> csi-attacher --(gRPC)--> [Storage]   in the harness
//	kubelet --(gRPC)--> [ServeNode]                                                    in each node
//
// csi-attacher is kubernetes-csi's own (integration/cluster/cmd/attacher). [Storage] remembers which node has which
// volume attached, and when that changed. That shows a second node more reliably than any Kubernetes object:
// [Storage.Changes]. It refuses a second node, as storage for one node does, and counts the try.
//
// A node mounts a volume by a bind mount, and detaching does not remove that mount: a process that still runs there
// goes on writing, as with storage that does not fence.
//
// # Concurrency and blocking
//
// A [Storage] may be used from any goroutine. [ServeNode] and [Storage.Serve] block until the
// context ends.
package csi
