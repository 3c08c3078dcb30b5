// Package picture shows an agent to people and to programs: the status of the API and the metrics.
//
//	loop --> Facts, at most once a second or when something changed --> Status, Metrics.Show, Ready
//
// Facts are what the loop saw at one moment. They are made once and never changed, nor is anything that they
// point to, so a client is answered without the loop: one that asks often costs the loop nothing, and facts
// that are old say that the loop stands still.
//
// What is shown is a function of the facts, and of the clock where a verdict may have expired since. Nothing here
// writes a log, decides anything or keeps a state of its own, but for the counters in Metrics: what happens is
// counted when it happens.
//
// # Ownership
//
// Facts may be read from any goroutine. Of Metrics, Show and Tie belong to the agent's loop, and the rest may be
// called from any goroutine. Nothing blocks.
package picture
