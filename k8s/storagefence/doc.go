// Package storagefence decides what happens to pods on a node that their storage has given up: which node is handled
// when ([Cache]), and which of its pods may be deleted ([Judge]).
//
// It is for storage that runs on the nodes itself and continues with another copy of a volume when a node is lost. Such
// storage knows before any other program that a node can no longer write, and refuses its writes from then on.
// k8s/recovery acts on proofs that a whole node is dead. This package acts on the report of one storage. It only
// handles the pods that have opted in by a label, and only the volumes of that storage.
//
// # Invariants
//
//   - A node is handled only while its storage calls it unhealthy. If the storage's API is silent, does not list a node,
//     or reports an unknown health, nothing is done.
//   - A pod is deleted only if each volume that could be attached elsewhere is of that storage and healthy. If the node is
//     known to be off, volumes of other storages are allowed, since Kubernetes releases them.
//   - Without a proof that the node is off, and without a storage that refuses its writes, nothing is deleted.
//
// Both parts are pure: time and facts are arguments. k8s/storagewatch carries them out.
package storagefence
