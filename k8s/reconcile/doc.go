// Package reconcile carries out what k8s/recovery asks for, by controller-runtime: it watches the metadata of Nodes,
// has one machine for each Node that an agent calls dead, and does its requests one after the other.
//
//	Nodes (metadata only) --> index of what agents tell --> queue --> Reconciler.Reconcile
//	                                                                    |  recovery.Machine: what next?
//	API server <-- calls: reads that no cache answers, writes with preconditions
//
// # Invariants
//
//   - What leads to a write is read from the API server itself; the caches say only where to look.
//   - No write is without a precondition. k8s.Recovery lists all that it asks for, and a test holds the chart's roles to it.
//   - Nothing is kept that a restart may not lose: what disputes a death is written to the Node.
//
// # Replicas
//
// All replicas work. k8s/ownership says who begins first with a Node; the others follow after a pause, whatever the
// first has done. There is no leader and no Lease of the controller's.
//
// # Concurrency and blocking
//
// The queue calls Reconcile for one Node at a time, from up to [workers] goroutines; each call blocks for requests with
// a deadline of [requestTimeout] each. The mutex of the Reconciler guards machines, pace and index, and is never held
// during a request.
package reconcile
