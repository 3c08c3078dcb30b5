// Package ownership says which replica of a controller takes which piece of work first, without a leader.
//
// [Rank] orders the replicas for one piece of work by rendezvous hashing: each has a score that depends on its name
// and on the work, and the highest is first. All who see the same replicas find the same order, and a replica that
// is added or removed moves only the work in which it is first. [Delay] turns the rank into a wait: the first begins at
// once, the next after a pause, and so on. So a replica that is dead and still listed delays work by one pause; it
// cannot keep the work from being done, and nobody has to find out whether that replica runs.
//
// # What it does not do
//
// The order does not exclude: two replicas that see different lists, or of which one is slow, may do the same work at one time.
// Whatever they do must therefore be harmless when it is done twice. Every write of k8s/recovery carries the
// resourceVersion that it rests on, so that the second of two is refused (docs/adr/0027).
//
// All functions are pure and may be called from any goroutine. The controllers (k8s/reconcile) call them.
package ownership
