// Package storagewatch asks a storage for the health of its nodes and moves opted-in pods from those that it reports as
// offline. It is the adapter between controller-runtime, the storage's API and the pure k8s/storagefence.
//
// # Invariants
//
//   - Every deletion carries the UID and resourceVersion that were judged. Right before the deletion the storage is asked
//     again whether it still calls the node unhealthy. If pods are deleted because the node is off, the Node is read
//     again as well, to see whether that is still so.
//   - Only those VolumeAttachments are deleted that are of this storage's driver and of this node, and that no staying pod
//     uses. Their pod was deleted in the same attempt, or is gone since a failed one. The pod goes first: for a pod that
//     exists, kube-controller-manager would create the attachment again.
//   - Before the first deletion on a node that Kubernetes may still schedule to, a taint keeps replacements away. The
//     taint belongs to this program alone, and is removed when the storage calls the node healthy.
//
// docs/storage.md describes the same for operators.
package storagewatch
