// Package clusterpage is the status page of fencing-controller, as this replica knows the cluster: the Nodes by group;
// which nodes are reported dead, by which agents and with which proof; how far each recovery is and what it waits for;
// the pace of a storm; and the replicas. api/page defines how the page is served, and to whom.
//
// # Concurrency and blocking
//
// Each request has a goroutine of net/http. An open page asks for the picture every second; the mutex of the Reconciler
// is held only while the picture is copied.
package clusterpage
