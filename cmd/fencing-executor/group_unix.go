//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup ends what an agent has started together with it: ipmitool, ssh and others.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
