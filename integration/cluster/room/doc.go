// Package room runs a program again in new namespaces: network, mounts and processes. Everything that it creates there
// ends with it, even after SIGKILL: interfaces, mounts, and every process that it or its processes started.
//
//	make cluster, go test          the room
//	[Enter] ------ starts -------> the same program, process 1, in which Enter returns
//	   |  waits, then removes what namespaces do not: control groups, the folder
//
// Enter is called first in main, before goroutines and threads are made. It blocks in the outer
// process until the room is empty, and ends that process with the exit code of the inner one.
// Signals go to both: the terminal sends Ctrl-C to all processes of the foreground; the outer
// one passes it on if it was sent to it alone, ends the room thirty seconds later if need be,
// and cleans up in any case. If the outer process is killed, so is the room, by the parent-death
// signal; then control groups and the folder are left, and removed by the next [Enter].
package room
