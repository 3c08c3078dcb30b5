// Package picture shows an agent to people and to programs: the status of the API and the metrics.
//
//	loop --> Facts, at most once a second or when something changed --> Status, Metrics.Show, Ready
//
// Facts are the state of the loop at one moment. Neither they nor anything that they point to changes later, so clients
// are answered without the loop. A client that asks often costs the loop nothing, and old facts show that the loop
// hangs.
//
// The output is a function of the facts, and of the clock if a verdict may have expired since. Nothing here writes a
// log, decides anything or keeps state, except for the counters in Metrics: events are counted when they happen.
//
// # Ownership
//
// Facts may be read from any goroutine. Show and Tie of Metrics belong to the agent's loop, and the rest may be called
// from any goroutine. Nothing blocks.
package picture
