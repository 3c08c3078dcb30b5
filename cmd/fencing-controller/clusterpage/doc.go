// Package clusterpage is the status page of fencing-controller: the Nodes by group, who is called dead by whom and with which
// proof, how far each recovery is and what it waits for, the pace of a storm, and the replicas, as this replica knows them.
// How it is served, and who may see it, is in api/page.
//
// # Concurrency and blocking
//
// Each request has a goroutine of net/http. An open page asks for the picture every second; the mutex of the
// Reconciler is held only while the picture is copied.
package clusterpage
