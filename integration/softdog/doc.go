// Package softdog tries fencectl watchdog test where it must work: in machines of User-mode Linux that have their own
// kernel and softdog, as root. It contains only tests; make test-vms KIND=watchdog runs them.
//
// The device, its countdown, the reset, the file systems and the processes are real. The entries of a watchdog in sysfs
// are not: Debian's kernel for User-mode Linux is built without them, so files replace them.
//
// A machine has a goroutine that reads its console and ends with its kernel. A test blocks until a line arrives, for at
// most a few minutes.
package softdog
