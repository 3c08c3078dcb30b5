// Package recovery gets the pods off a node whose boot has ended: one [Machine] for each Node.
//
// The machine asks for one request at a time ([Machine.Next]) and is told its answer ([Machine.Done]). It knows no
// API server and no clock; k8s/reconcile carries the requests out, its tests do so on virtual time.
//
// # What it does
//
//  1. The death is of the boot in the Node's status, enough reporters tell of it (k8s/belief), and the node's Lease
//     has run out, has not been renewed since the proof was taken up, and was watched for as long as a renewal takes.
//     The watch alone is not enough: a kubelet whose API server dies renews it after two timeouts (docs/adr/0029).
//  2. The barrier: the taint out-of-service goes on the Node by a patch with the resourceVersion under which that boot
//     was read. So either a new boot was there first, and the patch is refused; or each kubelet that lists its Node
//     from now on rejects the pods. The taint's value names the boot ([Fenced]), so that each replica, and each that
//     comes after, knows what was done from the Node alone.
//  3. A second later, and once a pod has its deletionTimestamp (the eviction by taint works by name, and would hit the
//     replacement else), it is deleted without grace.
//  4. VolumeAttachments are never touched: with the taint and without the pod, kube-controller-manager detaches.
//  5. The taint comes off when the Node has another boot, is Ready, and no pod that the taint evicts is left on it, all
//     for [returnSettle].
//
// # Invariants
//
//   - Nothing is written for a boot other than the one that was read in the same round and is believed dead.
//   - Every patch of a Node carries its resourceVersion, every deletion the pod's UID and resourceVersion, read before
//     the Node and the Lease were. A round's barrier and deletions are sent within [maxAge] of asking for its Lease.
//   - A pod that tolerates the taint, and a mirror pod, is never deleted: nothing keeps it from running in a new boot.
//   - A Lease that is renewed under the dead boot, a Node whose Ready its kubelet has written since the proof was taken
//     up, or a reporter that takes its word back, ends all deletions for that boot. An annotation of the Node says so at
//     once ([NoteKey]), and the taint, if there is one, unless another boot follows within [disputeAfter] ([Disputed]):
//     for good, for all replicas, until a person or another boot takes them off.
//   - Losing the machine's memory costs a pause, never safety, but for what was seen and could not be written yet.
//
// docs/controller.md tells operators the same; docs/adr/0028 has the reasons. A machine is not safe for concurrent
// use. It blocks on nothing.
package recovery
