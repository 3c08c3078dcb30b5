// Package storm limits what a controller does to nodes that fail at the same time. It is the one place that both the
// recovery (k8s/recovery) and fencing by devices (k8s/fencing) ask.
//
// A death that is proven stays proven in a storm: nothing here makes recovery wait for more evidence. The package
// limits what a storm does to the control plane (docs/controller.md has the measurements):
//
//   - at most [Settings.Evicting] nodes at a time have pods that the taint eviction has not reached yet: with more of
//     them kube-controller-manager is not faster, and it evicts replacements;
//   - at most [Settings.DeletesPerSecond] pods a second are force-deleted;
//   - if more than [Settings.MaxDeadPercent] of a group are dead, the next node waits for a person. This limit is off
//     (100) unless the operator sets it.
//
// Fencing by devices makes nodes dead, so it has more limits: [Policy] is asked before each step that isolates a node
// or cuts its power.
//
//   - If too many Nodes are not Ready, or have Leases that have run out, the fault is more likely on this side. After such
//     a storm fencing waits for a while.
//   - Few nodes are switched at one time.
//   - The limit on the dead of a group is the same as the recovery's.
//   - Agents' reports about a node, or about their quorum, hold fencing up as well ([sightings.Sighting]). They never
//     permit anything, and hold up nothing that is proven.
//
// The policy uses one look at the API server. [History] also remembers earlier storms, and how long reports have been
// there; it may be lost.
//
// Nodes of the control plane have still stricter limits, which also hold up a person's order: one node at a time, and
// none while another is not Ready ([ControlPlane]).
//
// Each refusal has a reason in one word and a sentence for people ([Verdict]).
//
// [Pace] is state without a clock: the time is an argument. It is not safe for concurrent use; k8s/reconcile guards its
// one Pace, which all nodes share, with a mutex. The limits apply to one replica.
package storm
