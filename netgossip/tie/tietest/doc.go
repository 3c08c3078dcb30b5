// Package tietest is the conformance suite of tie-breakers: what netgossip/tie.Breaker promises, as checks that anybody
// can run with [Conform] on a tie-breaker of their own. It is for tests.
//
// A [Group] is four nodes on one clock, whose network the suite splits, and whose nodes it lets die. Everything that a
// tie-breaker answers is held against the promises in every step of every scenario.
package tietest
