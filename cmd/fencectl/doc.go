// Command fencectl is the operator's tool: it checks configurations and asks the agent
// and the LUN how they are. Installed as kubectl-fence it is a plugin of kubectl.
//
// It is a client of the agent's socket, of the LUN and of the configuration, and links nothing
// else; integration/arch has a test for that. The program that shows and measures whole clusters is
// integration/laboratory.
//
// # Structure
//
// Each verb is one file, cmd_VERB.go, with a constructor newVerbCommand(env) that
// returns its cobra command; newRootCommand lists them all. A verb takes streams and
// environment variables from the [environment] it was handed, never from package os,
// so that tests run it in-process, and prints through a [printer], which gives every
// verb the same -o flag.
//
// The verbs that ask the agent reach it through an agentConn (socket.go), which also says what to do when it cannot be
// reached. Their output is printed through a page, which lets no byte from a peer control the terminal.
//
// Verbs run on the main goroutine. Those that wait watch the command's context, which SIGINT and SIGTERM cancel. To
// follow the agent until then is a success; to wait in vain is a failure.
//
// # Errors
//
// A verb returns its error and prints none. run prints each on one line of stderr and turns it into the exit code: 2
// if the verb had not started or returned a [usageError], 3 for a [timeoutError], otherwise 1. What is not an error
// but worth knowing is written to stderr by environment.warn.
package main
