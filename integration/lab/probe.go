package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// reexecEnv marks a process that Reexec has started, so that Reexec never runs twice.
const reexecEnv = "FENCING_LAB_IN_USER_NAMESPACE"

// InUserNamespace reports whether this process was started by Reexec.
func InUserNamespace() bool { return os.Getenv(reexecEnv) != "" }

// Probe builds a lab of two nodes, cuts it and takes it down. Its error explains why no lab is possible here.
func Probe() (err error) {
	dir, err := os.MkdirTemp("", "fencing-lab-probe-")
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	defer os.RemoveAll(dir)
	l, err := New(Config{Nodes: []string{"a", "b"}, Networks: []string{"net"}, Dir: dir})
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.Cut([]string{"a"}); err != nil {
		return err
	}
	return l.Loss("net", 50)
}

// CanReexec returns why Reexec would fail.
func CanReexec() error {
	out, err := exec.Command("unshare", append(userNamespace, "true")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("lab: unshare(1), of util-linux: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// userNamespace makes unshare(1) execute the following command as root of a new user namespace.
var userNamespace = []string{"--map-root-user", "--net", "--"}

// Reexec replaces this process by one that runs the same command as root of a new user namespace. This gives a lab to
// an ordinary user. A process with several threads, as every Go program is, cannot enter a user namespace itself, but
// unshare(1) can. Reexec returns only if it fails. If user namespaces are not allowed, unshare prints this.
func Reexec() error {
	if InUserNamespace() {
		return errors.New("lab: already inside a user namespace of its own")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("lab: find own program: %w", err)
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return fmt.Errorf("lab: an ordinary user needs unshare(1), of util-linux: %w", err)
	}
	argv := slices.Concat([]string{"unshare"}, userNamespace, []string{self}, os.Args[1:])
	return fmt.Errorf("lab: execute %s: %w", unshare, unix.Exec(unshare, argv, append(os.Environ(), reexecEnv+"=1")))
}
