// Package room runs a program again in new namespaces: network, mounts and processes. Everything that it creates
// there ends with it, even after SIGKILL: interfaces, mounts, and every process that it or its processes started.
//
//	make cluster, go test          the room
//	[Enter] ------ starts -------> the same program, process 1, in which Enter returns
//	   |  waits, then removes what namespaces do not: control groups, the folder
//
// Call Enter first in main, before goroutines and threads are created. It blocks in the outer process until the room
// is empty, and ends that process with the exit code of the inner one.
//
// Both processes must get a signal. The terminal sends Ctrl-C to all processes in the foreground. If only the outer
// process gets a signal, it passes the signal on. It ends the room thirty seconds later if necessary, and cleans up
// in any case. If the outer process is killed, the parent-death signal kills the room. Its control groups and folder
// are then left, and the next [Enter] removes them.
package room
