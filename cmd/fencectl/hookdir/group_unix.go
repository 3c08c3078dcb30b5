//go:build unix

package hookdir

import (
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// group has the end of the program be that of all it has started: SIGTERM, and SIGKILL after the grace. The function that
// it returns is called when the program has ended.
func group(cmd *exec.Cmd) (ended func()) {
	var kill *time.Timer
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		pid := cmd.Process.Pid
		// The group is there until then: either its first process was not waited for, or others hold its output.
		kill = time.AfterFunc(grace, func() { _ = syscall.Kill(-pid, syscall.SIGKILL) })
		return syscall.Kill(-pid, syscall.SIGTERM)
	}
	cmd.WaitDelay = grace + time.Second
	return func() {
		if kill != nil {
			kill.Stop()
		}
	}
}

// changeable names who else can change a file; empty: nobody.
func changeable(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode()&0o002 != 0:
		return "everybody"
	case info.Mode()&0o020 != 0:
		return "its group"
	case ok && st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return "its owner"
	}
	return ""
}
