// Package tie is the port of the tie-breakers: what decides an equal split by grants is asked in one way and
// answers in one way ([Breaker]), whether it is the slot table on the LUN (package diskquorum), a Lease of the
// API server (package k8s/leasequorum) or something that does not exist yet. The caller, package watchdog, has one of
// them, compares states and knows none of their algorithms.
//
// It depends on package netgossip alone, and holds no rule: the algorithms stay where they are.
package tie
