// Package procfs reads from /proc whether a killed process still exists, which process has a socket, and which boot
// this is.
package procfs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// sigKill is the bit of SIGKILL, signal 9, in a set of signals.
const sigKill = 1 << 8

// Killed reports whether a process was killed and cannot exit yet, because one of its threads hangs in the kernel. Its
// files and sockets stay open until that thread returns: the sockets accept connections that no thread serves. root is
// where /proc is mounted. An unknown process counts as not killed.
//
// Linux shows this in two ways. If a thread other than the first one hangs, the first one is a zombie. If the first one
// hangs, its SIGKILL is still pending; the kernel sends this signal to every thread of an ending process.
func Killed(root string, pid int) bool {
	status, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); key {
		case "State":
			if strings.HasPrefix(value, "Z") {
				return true
			}
		case "SigPnd": // of this thread; line ends in the program's name, in an earlier line, are escaped
			pending, err := strconv.ParseUint(value, 16, 64)
			return err == nil && pending&sigKill != 0
		}
	}
	return false
}
