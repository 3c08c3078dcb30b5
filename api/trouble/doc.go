// Package trouble is the only list of what can be wrong with an agent, its node and its group. Each trouble has its
// code, its severity, one sentence, what it means and what to do, its section of docs/troubleshooting.md, and the
// trouble that explains it. The status and its page, the log, fencectl doctor and the alerts of the chart take their
// texts from here; the document is checked against the list. The list is constant: nothing blocks, and every function
// may be called from any goroutine.
package trouble
