// Package night plays through a night on call, on real agents in network namespaces with simulated watchdogs: the page,
// the status, the page in the browser, the reset, the history after it, maintenance, and a death that a person
// confirms. Each step shows what the person types and sees, and what the step must show. If it does not show this, the
// night fails.
//
// Run blocks for about a minute, and is called once. The goroutine of a watchdog that fires kills the agent of its node
// and notifies the step that waits for it. All goroutines end with the cluster.
package night
