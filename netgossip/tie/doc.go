// Package tie is the port of the tie-breakers: [Breaker] is the common interface of everything that decides an equal
// split by grants. Implementations are the slot table on the LUN (package diskquorum) and a Lease of the API server
// (package k8s/leasequorum). The caller, package watchdog, uses one of them and does not know their algorithms.
//
// It depends only on package netgossip, and contains no algorithm.
package tie
