// Package vms tests the real binaries on whole virtual machines: four nodes with Debian's kernel, two networks, an
// iSCSI initiator and the kernel's software watchdog, and a storage machine with the kernel's iSCSI target. QEMU
// emulates the processors, so that neither KVM nor root is needed. It contains only tests, which "make test-vms" runs:
//
//	FENCING_TEST_VMS=1 go test ./integration/vms -v
//
// Without this variable, or on other machines, they skip and say why.
//
// # What is proven
//
// A node counts as dead when the hypervisor saw a RESET of its machine, and for no other reason. The time of the last
// feed comes from the trace points of the kernel's watchdog core, not from the agent. The agent's log is only used for
// the time of its verdict.
//
// If the machines had to wait for processors, something that did not happen in time proves nothing: such a scenario is
// skipped, with the reason. Two parts that live beyond the horizon, a feed after a pause, and a reset later than
// published are failures, however slow everything is.
//
// TestComparison ("make test-vms KIND=compare") runs other systems, from their Debian packages, and the agent with its
// defaults in the same machines, and measures what the same faults do to them.
//
// TestOutages ("make test-vms KIND=outages") makes groups of several sizes survive an outage of all networks while the
// LUN works.
//
// TestFabric ("make test-vms KIND=fabric") cuts a node off from its LUN with Debian's fence_scsi, as a Job of
// fencing-controller does, and looks for writes that land after that.
//
// TestPaths ("make test-paths") cuts one path of a LUN, and then both, and measures how long a read stalls with
// dm-multipath over iSCSI and with NVMe/TCP. It needs no agent: it tries the settings that docs/operations.md advises.
// TestPathsInASplit splits two agents while a path is lost.
//
// TestWatchdogs ("make test-watchdog") lets the agent arm, feed and disarm drivers of boards that QEMU emulates, lets
// fencectl watchdog test reset their machines, and checks that even the latest reset is within the published horizon.
//
// TestCrashKernel ("make test-vms KIND=crash") makes one machine panic, whose crash kernel runs Debian's
// fence_kdump_send, and resets another. The listener of fencing-controller, in this process, must receive messages from
// the first machine and none from the second.
//
// # State and invariants
//
// One lab serves one scenario after the other. Each scenario begins and ends with nodes that count each other and hold
// their slots. When one has failed, or needs more nodes, the next gets a new lab. A node that was reset is back as
// another incarnation; the others learn of its death from the new boot, and not before the reset. The logs of all
// machines are kept when a test fails. All traffic of the machines stays in this process (package fabric).
//
// # Concurrency and blocking
//
// The test's goroutine tells the story; the machines' goroutines belong to package machine. Ctrl-C ends the machines
// and removes the files.
package vms
