// Package night plays a night on call through, on real agents in network namespaces with simulated watchdogs: the page, the
// status, the page in the browser, the reset, the history after it, maintenance, and a death that a person confirms.
// Each step shows what the person types and sees, and says what it must show: the night fails if it does not.
//
// Run blocks for about a minute, and is called once. The goroutine of a watchdog that fires kills the agent of its
// node and notifies the step that waits for it; all end with the cluster.
package night
