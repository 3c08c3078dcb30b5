// Package leaseregister performs the operations of k8s/leasequorum on a coordination.k8s.io/v1
// Lease: it is the compare-and-swap register that those rules ask for.
//
// # The object
//
// There is one Lease for each group, named by [Name], in the namespace of the agent. All decisions
// rest on the annotation [Annotation]; spec shows people the holders and when the grant was last
// written, and is never read.
//
// # What makes it a register
//
// A write carries the UID and the resourceVersion that it replaces; the API server refuses the write
// if either has changed. The UID matters: a Lease may be created by an update, so only the UID
// makes the server refuse a write to a deleted Lease. Each record has a tag of its own: without
// it an update could change nothing and then keep its resourceVersion. Reads ask for the latest
// version; nothing is retried here, and an answer that does not say what happened is
// leasequorum.Unknown.
//
// A Lease that cannot be decoded is unknown too, and never taken for one that names nobody; it has
// to be deleted by hand, which is safe at any time.
//
// # Concurrency and blocking
//
// [Register.Run] owns the only goroutine. [Register.Submit] never blocks; the function in
// [Config] is called from Run's goroutine with each end, which comes within Config.Timeout.
package leaseregister
