// Command guest is the first process of a virtual machine of the lab. As process 1 it mounts the file systems, loads
// the kernel modules and then only collects orphans. Its child brings the machine up as its Boot file says, runs the
// agent as the systemd unit would (one second after a failure it starts it again), and answers the harness over a
// virtio port. Errors are reported on the console and to the harness. The machine is then left in that state, so that
// the harness can examine it.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/integration/vms/control"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest:", serve())
		os.Exit(1)
	}
	if err := prepare(); err != nil {
		fmt.Println("guest:", err)
	}
	child := exec.Command("/proc/self/exe", "serve")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}
	if err := child.Start(); err != nil {
		fmt.Println("guest:", err)
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.ECHILD:
			select {} // process 1 must not end
		case err == nil && pid == child.Process.Pid:
			fmt.Printf("guest: the process that serves the harness has ended: %d\n", status)
		}
	}
}

// prepare mounts the file systems and creates the directories that every program expects.
func prepare() error {
	for _, m := range []struct{ kind, path string }{
		{"devtmpfs", "/dev"}, {"proc", "/proc"}, {"sysfs", "/sys"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"},
		{"tracefs", "/sys/kernel/tracing"}, {"cgroup2", "/sys/fs/cgroup"},
	} {
		if err := os.MkdirAll(m.path, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", m.path, err)
		}
		if err := unix.Mount(m.kind, m.path, m.kind, 0, ""); err != nil && err != unix.EBUSY {
			return fmt.Errorf("mount %s: %w", m.path, err)
		}
	}
	for _, dir := range []string{"/run/lock/iscsi", "/run/fencing-agent", "/etc/iscsi", "/etc/target", "/var/lib", control.DiskMount} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	// iscsid takes commands only from root, and looks up the user id of root.
	if err := os.WriteFile("/etc/passwd", []byte("root:x:0:0:root:/:/bin/sh\n"), 0o644); err != nil {
		return err
	}
	if err := os.Symlink("/run", "/var/run"); err != nil && !os.IsExist(err) {
		return err
	}
	boot, err := readBoot()
	if err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(boot.Name)); err != nil {
		return fmt.Errorf("set the name: %w", err)
	}
	for _, m := range boot.Modules {
		if err := load(m); err != nil {
			return err
		}
	}
	return nil
}

func readBoot() (*control.Boot, error) {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return nil, err
	}
	for _, word := range strings.Fields(string(line)) {
		name, ok := strings.CutPrefix(word, "vm=")
		if !ok {
			continue
		}
		text, err := os.ReadFile(control.BootFile(name))
		if err != nil {
			return nil, err
		}
		boot := new(control.Boot)
		if err := json.Unmarshal(text, boot); err != nil {
			return nil, fmt.Errorf("%s: %w", control.BootFile(name), err)
		}
		return boot, nil
	}
	return nil, fmt.Errorf("no vm=NAME on the kernel's command line")
}

func load(m control.Module) error {
	f, err := os.Open(m.Path)
	if err != nil {
		return fmt.Errorf("module: %w", err)
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(m.Path, ".ko") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(f.Fd()), m.Options, flags); err != nil && err != unix.EEXIST {
		return fmt.Errorf("load %s: %w", m.Path, err)
	}
	return nil
}
