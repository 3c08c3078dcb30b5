// Package machine says what a node of a real cluster on one machine is, whatever it is made
// of: a set of namespaces ([github.com/fencing-agent/fencing-agent/integration/cluster/namespaces]) or
// User-mode Linux ([github.com/fencing-agent/fencing-agent/integration/cluster/uml]).
//
//	Spec --> Kind.Boot --> Machine --(control)--> guest: containerd, kubelet
//
// A [Spec] is all that a node is told; it is read inside of it, by package guest, as JSON. A
// [Machine] is one boot. What happens to a node from outside, power and cables, is done by the
// harness; what happens inside of it is asked of the guest by [Machine.Do].
//
// Only [Line] has state, and only its methods block. A [Process] has a goroutine that ends with it.
package machine
