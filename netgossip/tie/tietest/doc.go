// Package tietest is the conformance suite of tie-breakers: what netgossip/tie.Breaker promises, as checks that anybody runs on
// one of his own by [Conform]. It is for tests.
//
// A [Group] is four nodes on one clock, whose network the suite splits, and whose nodes it lets die. Everything that a
// tie-breaker answers is held against the promises in every step of every scenario.
package tietest
