// Package image builds what the virtual machines of the lab boot: Debian's kernel, and an initial file system with
// busybox, open-iscsi, the kernel modules that the lab needs and the guest program.
//
// # State and invariants
//
// [Fetch] keeps unpacked packages in a folder that a later run uses again; a file "complete" in it means that all are
// there. Nothing is installed, and no file of the host gets into the image unless it is named. The programs in the
// image determine which libraries are packed, and the dependencies of the modules determine their order.
//
// # Concurrency and blocking
//
// The functions are plain and have one caller. Fetch downloads about 70 MB the first time, with the host's apt; Build
// takes about a second.
//
// # Errors
//
// If a program of the host is missing, the error names it and the package that contains it.
package image
