// Package storagefence decides what becomes of pods on a node that their storage has given up: which node is looked at
// when ([Cache]), and which of its pods may be deleted ([Judge]).
//
// It is for storage that runs on the nodes itself and goes on with another copy of a volume when a node is lost. Such storage knows
// before anybody else that a node can no longer write, and refuses its writes from then on. k8s/recovery acts on proofs
// that a whole node is dead; this package acts on one storage's word, for the pods that have opted in by a label, and
// for the volumes of that storage only.
//
// # Invariants
//
//   - A node is handled only while its storage calls it unhealthy. Silence of the storage's API, a node that it does
//     not list and a health that it does not know are no reason for anything.
//   - A pod is deleted only if each volume that could be attached elsewhere is of that storage and healthy, or, where
//     the node is known to be off, the others are released by Kubernetes.
//   - Who has no proof that the node is off, and no storage that refuses its writes, deletes nothing.
//
// Both parts are pure: time and facts are arguments. k8s/storagewatch carries them out.
package storagefence
