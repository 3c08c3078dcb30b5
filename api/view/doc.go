// Package view turns a status into the texts that a person sees: the output of fencectl, and the content of the agent's
// status page. All of it is a function of a status and the time; nothing blocks, and every function may be called from
// any goroutine.
package view
