// Package tietest is the conformance suite of tie-breakers: it checks the promises of netgossip/tie.Breaker. [Conform]
// runs the checks on any tie-breaker. The package is for tests.
//
// A [Group] is four nodes on one clock. The suite splits its network and lets its nodes die. In every step of every
// scenario, each tie-breaker's output is checked against the promises.
package tietest
