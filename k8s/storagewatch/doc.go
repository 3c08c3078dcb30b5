// Package storagewatch asks a storage for the health of its nodes and gets opted-in pods off those that it reports as
// offline. It is the adapter between controller-runtime, the storage's API and the pure k8s/storagefence.
//
// # Invariants
//
//   - Every deletion carries UID and resourceVersion as they were judged. Right before the deletion the storage is asked
//     again whether it still calls the node unhealthy. If pods are deleted because the node is off, the Node is read
//     again, too, to see whether that is still so.
//   - VolumeAttachments are deleted only of this storage's driver, of this node, of volumes of a pod that was deleted
//     in the same attempt or is gone since one that failed, and that no pod uses which stays. The pod goes first:
//     kube-controller-manager would make the attachment again for one that is there.
//   - Before the first deletion on a node that Kubernetes may still schedule to, a taint keeps replacements away. The
//     taint belongs to this program alone, and comes off when the storage calls the node healthy.
//
// docs/storage.md tells operators the same.
package storagewatch
