// Command fencectl is the operator's tool: it checks configurations, and shows the state of the agent and the LUN.
// Installed as kubectl-fence it is a plugin of kubectl.
//
// It is a client of the agent's socket, of the LUN and of the configuration, and links nothing else; integration/arch
// has a test for that. The program that shows and measures whole clusters is integration/laboratory.
//
// # Structure
//
// Each verb is one file, cmd_VERB.go, with a constructor newVerbCommand(env) that returns its cobra command;
// newRootCommand lists them all. A verb takes streams and environment variables from the [environment] that it gets,
// never from package os, so that tests run it in-process. It prints through a [printer], which gives every verb the
// same -o flag.
//
// The verbs that ask the agent reach it through an agentConn (socket.go), whose errors explain what to do if the agent
// cannot be reached. Their output is printed through a page, which lets no byte from a peer control the terminal.
//
// Verbs run on the main goroutine. Those that wait watch the command's context, which SIGINT and SIGTERM cancel. A verb
// that follows the agent until then succeeds; one that waits in vain fails.
//
// # Errors
//
// A verb returns its error and does not print it. run prints each error on one line of stderr and turns it into the
// exit code: 2 if the verb had not started or returned a [usageError], 3 for a [timeoutError], otherwise 1. Messages
// that are not errors are written to stderr by environment.warn.
package main
