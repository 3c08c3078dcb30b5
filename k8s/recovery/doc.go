// Package recovery removes the pods from a node whose boot has ended, by one [Machine] for each Node.
//
// The machine asks for one request at a time ([Machine.Next]) and gets its answer ([Machine.Done]). It knows no API
// server and no clock; k8s/reconcile carries out the requests, and its tests do so on virtual time.
//
// # What it does
//
//  1. It waits for three conditions. The death is of the boot in the Node's status. Enough reporters name it
//     (k8s/belief). The node's Lease has run out, has not been renewed since the proof, and was watched for as long as a
//     renewal takes. The watch alone is not enough: a kubelet whose API server dies renews it after two timeouts
//     (docs/adr/0029).
//  2. It sets the barrier: the taint out-of-service, by a patch with the resourceVersion under which that boot was read.
//     If a new boot was there first, the patch is refused. Otherwise each kubelet that lists its Node from now on rejects
//     the pods. The taint's value names the boot ([Fenced]), so that every replica, now or later, knows what was done from
//     the Node alone.
//  3. A second later it deletes each pod that has a deletionTimestamp, without grace. It waits for the deletionTimestamp
//     because the eviction by taint works by name, and would otherwise hit the replacement.
//  4. VolumeAttachments are never touched: with the taint and without the pod, kube-controller-manager detaches.
//  5. It removes the taint when the Node has another boot, is Ready, and has no pod left that the taint evicts, all for
//     [returnSettle].
//
// # Invariants
//
//   - Nothing is written for a boot other than the one that was read in the same round and is believed dead.
//   - Every patch of a Node carries its resourceVersion. Every deletion carries the pod's UID and resourceVersion, which
//     were read before the Node and the Lease. A round's barrier and deletions are sent within [maxAge] of asking for its
//     Lease.
//   - A pod that tolerates the taint, and a mirror pod, is never deleted: nothing keeps it from running in a new boot.
//   - Four things end all deletions for a boot: a Lease that is renewed under it, a Node whose Ready its kubelet has
//     written since the proof, a reporter that takes its report back, and agents that still see it for longer than
//     [seenLong]. An annotation of the Node records that at once
//     ([NoteKey]). So does the taint, if there is one, unless another boot follows within [disputeAfter] ([Disputed]).
//     It applies for good and to all replicas, until a person or another boot removes them.
//   - If the machine's memory is lost, that costs a pause, but never safety, with one exception: a dispute that was seen
//     and could not be written yet.
//
// docs/controller.md describes the same for operators; docs/adr/0028 has the reasons. A machine is not safe for
// concurrent use. It does not block.
package recovery
