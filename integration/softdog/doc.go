// Package softdog tries fencectl watchdog test where it must work: in machines of User-mode Linux with a kernel and a
// softdog of their own, as root. It has only tests; make test-vms KIND=watchdog runs them.
//
// The device, its countdown, the reset, the file systems and the processes are real. What sysfs shows of a watchdog is
// not: Debian's kernel for User-mode Linux is built without that, so files stand in for it.
//
// A machine has a goroutine that reads its console and ends with its kernel. A test blocks until a line comes, for minutes
// at most.
package softdog
