// Package cuts tells how many cuts of the networks that end by themselves cost a node its boot: with this agent, and with
// other systems, in the same machines, by one command ("make test-vms KIND=cuts"). It has tests only:
//
//	FENCING_TEST_CUTS=1 go test ./integration/cuts -v
//
// A machine is a kernel of User-mode Linux in a network namespace of package lab, with two networks, a LUN that is a file
// of the host, and the kernel's software watchdog. It computes at the host's speed, boots in two seconds, and several
// clusters run beside each other; integration/vms has emulated machines with everything real, at a fifteenth of the speed.
// The programs of other systems are Debian's packages, unpacked by apt-get download into a folder that is the root of all
// machines; the machines of one cluster share nothing but networks and LUN.
//
// # What is counted
//
// A machine counts as reset when its kernel has ended, which the host sees, or when it says on its console that it restarts,
// which ends it here. softdog panics: that ends the kernel at once, while a restart from an interrupt does not work in User-mode
// Linux. The kernel is started again a second later, as a new boot.
//
// # Concurrency and blocking
//
// Each cluster has a goroutine that goes from one fault to the next, each machine one that reads its console. All end with
// the test.
package cuts
