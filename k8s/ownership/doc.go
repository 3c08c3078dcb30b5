// Package ownership decides, without a leader, which replica of a controller begins first with a piece of work.
//
// [Rank] orders the replicas for one piece of work by rendezvous hashing. Each replica has a score that depends on its
// name and on the work, and the highest score is first. All replicas that see the same list derive the same order. A
// replica that is added or removed only moves the work in which it is first. [Delay] turns the rank into a wait: the
// first replica begins at once, the next after a pause, and so on. So a replica that is dead and still listed delays
// work by one pause. It cannot keep the work from being done, and no replica has to find out whether it runs.
//
// # What it does not do
//
// The order does not exclude: two replicas may do the same work at the same time, because they see different lists or
// one of them is slow. Their work must therefore be harmless when it is done twice. Every write of k8s/recovery carries
// the resourceVersion that it is based on, so that the second of two is refused (docs/adr/0027).
//
// All functions are pure and may be called from any goroutine. The controllers (k8s/reconcile) call them.
package ownership
