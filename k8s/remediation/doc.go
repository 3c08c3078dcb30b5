// Package remediation decides what happens to one FencingRemediation: the request of medik8s' NodeHealthCheck, or of a
// person, to fence a node. [Decide] looks at it, at its Node and at the node's NodeFence, and returns the one write
// that comes next. It remembers nothing.
//
// Invariants, with the guards that keep them:
//
//   - A remediation is a request and proves nothing. Its only effect is that a NodeFence may begin at once, for a node that
//     is not Ready; the limits of storms and the configuration apply as always ([Wishes]).
//   - A remediation is about the boot that the Node showed when the remediation was first seen. It asks for nothing for
//     another boot, and Succeeded is True only when that boot has ended.
//   - A request that was taken back, by deletion or because it timed out, begins nothing more. What it began is undone:
//     its own NodeFence is deleted, which gives back what was cut off, if that is safe (k8s/nodefence).
//   - The remediation stays until its NodeFence is gone, or is left to a person because it has given up. This program never
//     deletes a remediation.
//
// All functions are pure and may be called from any goroutine.
package remediation
