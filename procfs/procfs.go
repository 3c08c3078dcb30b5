// Package procfs reads from /proc what becomes of a process that was killed, who has a socket, and which boot this is.
package procfs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// sigKill is the bit of SIGKILL, signal 9, in a set of signals.
const sigKill = 1 << 8

// Killed reports whether a process was killed and cannot end yet, because a thread of it hangs in the
// kernel. All that it has open stays open until that thread returns: its sockets take connections that
// nobody serves. root is where /proc is mounted. A process that is unknown was not killed.
//
// Linux shows it in two ways. If a thread other than the first one hangs, the first one is a zombie. If
// the first one hangs, it still has to handle the SIGKILL that the kernel gives to every thread of a
// process that is to end, of whatever cause.
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
		case "SigPnd": // of this thread; a program's name, in the line before, has its line ends escaped
			pending, err := strconv.ParseUint(value, 16, 64)
			return err == nil && pending&sigKill != 0
		}
	}
	return false
}
