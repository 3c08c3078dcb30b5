// Package storm holds back what a controller does to nodes that fail at one time. It is the one place that the recovery
// (k8s/recovery) and fencing by devices (k8s/fencing) both ask.
//
// A death that is proven is proven, in a storm as well: nothing here makes recovery wait for more evidence. The package
// bounds what a storm does to the control plane (docs/controller.md has the measurements):
//
//   - at most [Settings.Evicting] nodes at a time have pods that the taint eviction has not got to yet: more of them
//     make kube-controller-manager no faster, and have it evict replacements;
//   - at most [Settings.DeletesPerSecond] pods a second are force-deleted;
//   - if more than [Settings.MaxDeadPercent] of a group are dead, the next node waits for a person. This limit is off
//     (100) unless the operator asks for it.
//
// Fencing by devices makes nodes dead, so it is held back by more: [Policy] is asked before each step that isolates a node
// or cuts its power. Too many Nodes that are not Ready, or whose Leases have run out, are more likely a fault on this
// side; after such a storm fencing waits for a while; few nodes are switched at one time; and the limit on the dead of a
// group is the one that the recovery keeps to. What agents say about a node, or about their quorum, holds fencing up as
// well ([sightings.Sighting]); it never permits anything, and holds up nothing that is proven. The policy relies on one look
// at the API server. [History] also remembers that there was a storm, and how long somebody has said something; it may be
// forgotten.
//
// Nodes of the control plane are held back by more still, and a person's order with them: one at a time, and none while
// another is not Ready ([ControlPlane]).
//
// Each refusal has a reason in one word and a sentence for people ([Verdict]).
//
// [Pace] is state without a clock: the time is an argument. It is not safe for concurrent use; k8s/reconcile guards
// the one that all nodes share with a mutex. The bounds are those of one replica.
package storm
