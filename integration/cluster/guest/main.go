package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/integration/cluster/cgroups"
	"github.com/fencing-agent/fencing-agent/integration/cluster/machine"
)

// control is the descriptor of the connection between the harness and the node.
const control = 3

// Main runs the part that the arguments name. The arguments are the part, the file with the spec, and for init the
// folders of its control groups.
func Main(args []string) error {
	if len(args) < 2 {
		return errors.New("guest: only the harness may start this program")
	}
	part, path := args[0], args[1]
	switch part {
	case "hook":
		return hook(path)
	case "power":
		return power(args[1:])
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s machine.Spec
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("guest: %s: %w", path, err)
	}
	switch part {
	case "init":
		return begin(path, args[2:])
	case "root":
		return root(path, &s)
	case "kernel":
		off(kernel(path, &s))
	case "serve":
		return serve(&s)
	}
	return fmt.Errorf("guest: unknown part %q", part)
}

// begin waits for the networks, and executes this program again in a control group namespace whose root is the given
// groups. A thread enters such a namespace alone, so that thread has to execute the program.
func begin(path string, groups []string) error {
	if _, err := unix.Read(control, make([]byte, 1)); err != nil {
		return fmt.Errorf("guest: wait for the networks: %w", err)
	}
	if err := cgroups.Join(groups); err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := clock(); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("guest: control group namespace: %w", err)
	}
	return unix.Exec("/proc/self/exe", []string{os.Args[0], "root", path}, os.Environ())
}

// clock makes CLOCK_BOOTTIME begin with the boot for all processes that this thread starts. Agents rightly do not
// believe in a new boot that began before the previous one ended.
func clock() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
		return fmt.Errorf("guest: time namespace (Linux 5.6, CONFIG_TIME_NS): %w", err)
	}
	// The offsets belong to a thread. In another namespace /proc has another number for it.
	thread, err := os.Readlink("/proc/thread-self")
	if err != nil {
		return err
	}
	offsets := filepath.Join("/proc", filepath.Base(thread), "timens_offsets")
	if err := os.WriteFile(offsets, fmt.Appendf(nil, "boottime %d 0\n", -now.Sec), 0); err != nil {
		return fmt.Errorf("guest: time namespace: %w", err)
	}
	return nil
}

// root sets up the machine, starts serve and ends when serve ends.
func root(path string, s *machine.Spec) error {
	for _, step := range []func(*machine.Spec) error{mounts, devices, network} {
		if err := step(s); err != nil {
			return err
		}
	}
	return startServe(path, os.NewFile(control, "control"))
}

// hook binds the file over the boot id in the container. containerd's runtime names the container's bundle on the
// standard input.
func hook(file string) error {
	var state struct{ Bundle string }
	if err := json.NewDecoder(os.Stdin).Decode(&state); err != nil {
		return err
	}
	target := state.Bundle + "/rootfs" + bootID
	if err := unix.Mount(file, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("guest: mount over %s: %w", target, err)
	}
	return nil
}
