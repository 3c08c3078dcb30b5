// Package leaseregister performs the operations of k8s/leasequorum on a coordination.k8s.io/v1 Lease: it is the
// compare-and-swap register that those rules need.
//
// # The object
//
// There is one Lease for each group, named by [Name], in the namespace of the agent. All decisions are based on the
// annotation [Annotation]; spec shows people the holders and when the grant was last written, and is never read.
//
// # What makes it a register
//
// A write carries the UID and the resourceVersion that it replaces; the API server refuses the write if either has
// changed. The UID matters: an update may create a Lease, so only the UID makes the server refuse a write to a deleted
// Lease. Each record has a tag of its own: without it an update might change nothing and then keep its resourceVersion.
// Reads ask for the latest version. Nothing is retried here. An answer that does not tell what happened is
// leasequorum.Unknown.
//
// A Lease that cannot be decoded is unknown as well, and never counts as one that names nobody. It has to be deleted by
// hand, which is safe at any time.
//
// # Concurrency and blocking
//
// [Register.Run] has the only goroutine. [Register.Submit] never blocks. Run's goroutine calls the function in [Config]
// at the end of each operation, which comes within Config.Timeout.
package leaseregister
