// Package image builds what the virtual machines of the lab boot: Debian's kernel, and an initial file system with
// busybox, open-iscsi, the kernel modules the lab needs and the guest program.
//
// # State and invariants
//
// [Fetch] keeps unpacked packages in a folder that a later run uses again; a file "complete" in it says that all are
// there. Nothing is installed, and nothing of the machine it runs on gets into the image: which libraries are packed
// follows from what the programs in it need, and the order of the modules from what each depends on.
//
// # Concurrency and blocking
//
// Plain functions; one caller. Fetch downloads some 70 MB the first time, by the machine's own apt; Build takes about
// a second.
//
// # Errors
//
// A program of this machine that is missing is named with the package that has it.
package image
