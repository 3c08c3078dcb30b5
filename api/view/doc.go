// Package view turns a status into what a person is shown: the text of fencectl, and what the agent's status page is
// made of. All of it is a function of a status and the time; nothing blocks, and every function may be called from any
// goroutine.
package view
