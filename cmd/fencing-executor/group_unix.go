//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup makes programs that an agent has started, such as ipmitool and ssh, end together with it.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
