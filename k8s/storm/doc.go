// Package storm paces what a controller does to nodes that die at one time.
//
// A death that is proven is proven, in a storm as well: nothing here makes recovery wait for more evidence. What it
// bounds is what a storm does to the control plane (docs/controller.md has the measurements):
//
//   - at most [Settings.Evicting] nodes at a time have pods that the taint eviction has not got to yet: more of them
//     make kube-controller-manager no faster, and have it evict replacements;
//   - at most [Settings.DeletesPerSecond] pods a second are force-deleted;
//   - if more than [Settings.MaxDeadPercent] of a group are dead, the next one waits for a person. It is off (100)
//     unless the operator asks for it.
//
// Each refusal has a reason in one word and a sentence for people ([Verdict]).
//
// [Pace] is state without a clock: the time is an argument. It is not safe for concurrent use; k8s/reconcile guards
// the one that all nodes share with a mutex. The bounds are those of one replica.
package storm
