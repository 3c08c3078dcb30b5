// Package vms tests the real binaries on whole virtual machines: four nodes with Debian's kernel, two networks, an
// iSCSI initiator and the kernel's software watchdog, and a storage machine with the kernel's iSCSI target. QEMU
// emulates the processors, so that neither KVM nor root is needed. It has tests only, which "make test-vms" runs:
//
//	FENCING_TEST_VMS=1 go test ./integration/vms -v
//
// Elsewhere they skip and say why.
//
// # What is proven
//
// A node counts as dead when the hypervisor saw a RESET of its machine, and for no other reason. The time of the last
// feed comes from the trace points of the kernel's watchdog core, not from the agent. The agent's log is asked only
// for the time of its verdict.
//
// If the machines had to wait for processors, it proves nothing that something did not happen in time: such a scenario
// is skipped, with the reason. Two parts that live beyond the horizon, a feed after a pause, and a reset later than
// published are failures, however slow everything is.
//
// TestComparison ("make test-vms KIND=compare") puts other systems into the same machines, by their programs of Debian, and the
// agent with its defaults, and measures what the same faults do to them.
//
// TestOutages ("make test-vms KIND=outages") has groups of several sizes ride out an outage of all networks, the LUN whole.
//
// TestFabric ("make test-vms KIND=fabric") cuts a node off from its LUN by Debian's fence_scsi, as a Job of fencing-controller runs
// it, and looks for writes that land after that.
//
// TestPaths ("make test-paths") takes the paths of a LUN away, one and both, by dm-multipath over iSCSI and by NVMe/TCP, and
// measures how long a read stalls. It needs no agent: it tries the settings that docs/operations.md advises. TestPathsInASplit
// has two agents part while a path is lost.
//
// TestWatchdogs ("make test-watchdog") has the agent arm, feed and disarm drivers of boards that QEMU emulates, lets
// fencectl watchdog test reset their machines, and looks whether the published horizon outlives the latest reset there is.
//
// TestCrashKernel ("make test-vms KIND=crash") has a machine panic whose crash kernel runs Debian's fence_kdump_send, and another one
// reset: fencing-controller's listener, in this process, hears the one and nothing of the other.
//
// # State and invariants
//
// One lab serves one scenario after the other, each of which begins and ends with nodes that count each other and hold
// their slots; when one has failed, or wants more nodes, the next gets a lab of its own. A node that was reset is back
// as another incarnation, and the others know of that death by the new boot and not before the reset. Logs of all machines stay when a test
// fails. All traffic of the machines stays in this process (package fabric).
//
// # Concurrency and blocking
//
// The test's goroutine tells the story; the machines' goroutines belong to package machine. Ctrl-C ends the machines
// and removes the files.
package vms
