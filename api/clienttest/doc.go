// Package clienttest provides an agent for testing programs that follow an agent: it serves the real API on a real
// socket, with answers that the test controls.
//
//	a := clienttest.Start(t, "n1", "n2", "n3")     // n1 is the agent's own node; all answer
//	go follow(a.Socket)                            // the program under test, with client.Config{Socket: a.Socket}
//	a.Leave("n3")                                  // it does not answer: allows nothing
//	a.Fence("n3", fencingv1.Proof_PROOF_SENTENCE)  // its boot is dead: allows what docs/consumers.md lists
//	a.LoseQuorum() // from now on what this agent says about others allows nothing
//
// A program should pass with each of these at any moment: [Agent.Stop] and [Agent.Restart], as when an agent is
// replaced; [Agent.Contradict], which withdraws a death; and [Agent.Stall], an agent that answers and decides nothing.
//
// # Concurrency
//
// All methods may be called from any goroutine. None waits for a client. The agent ends with the test.
package clienttest
