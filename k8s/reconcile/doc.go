// Package reconcile carries out what k8s/recovery asks for, by controller-runtime. It watches the metadata of Nodes,
// has one machine for each Node that an agent calls dead, and carries out its requests one after the other.
//
//	Nodes (metadata only) --> index of what agents tell --> queue --> Reconciler.Reconcile
//	                                                                    |  recovery.Machine: what next?
//	API server <-- calls: reads that no cache answers, writes with preconditions
//
// # Invariants
//
//   - Everything that leads to a write is read from the API server itself; the caches only show where to look.
//   - Every write has a precondition. k8s.Recovery lists all rights that it needs, and a test compares the chart's roles
//     with that list.
//   - All state may be lost in a restart: what disputes a death is written to the Node.
//
// # Replicas
//
// All replicas work. k8s/ownership decides which replica begins first with a Node; the others follow after a pause,
// whatever the first has done. There is no leader, and the controller has no Lease.
//
// # Concurrency and blocking
//
// The queue calls Reconcile for one Node at a time, from up to [workers] goroutines. Each call blocks for requests with
// a deadline of [requestTimeout] each. The mutex of the Reconciler guards machines, pace and index, and is never held
// during a request.
package reconcile
