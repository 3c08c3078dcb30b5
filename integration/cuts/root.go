package cuts

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/fencing-agent/fencing-agent/integration/vms/image"
)

// initScript is process 1 of a machine.
//
//go:embed init.sh
var initScript []byte

// modulesDir has a folder for the kernel's release.
const modulesDir = "/usr/lib/uml/modules"

// peerPackages are Debian's packages with the other systems; busybox is what a machine has besides.
var peerPackages = []string{"pacemaker", "pacemaker-common", "pacemaker-cli-utils", "corosync", "sbd", "busybox-static"}

// commands are what busybox stands for.
var commands = []string{
	"sh", "cat", "ls", "ps", "kill", "echo", "sleep", "mount", "umount", "ip", "dmesg", "grep", "cp", "mv", "rm", "mkdir", "mkfifo", "ln",
	"head", "tail", "pidof", "touch", "chmod", "chown", "awk", "sed", "test", "tr", "printf", "insmod", "mknod", "hostname", "stty", "syslogd",
	"cut", "env", "basename", "dirname", "id", "wc", "sync", "find", "date", "rmdir", "readlink", "seq", "expr", "uname", "which", "dd",
}

// missing says what has to be installed here; nil: nothing.
func missing() error {
	const install = "on Debian: apt-get install --no-install-recommends user-mode-linux gcc libc6-dev"
	if os.Geteuid() != 0 {
		return errors.New("machines of User-mode Linux in network namespaces need root")
	}
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("there is no User-mode Linux for %s", runtime.GOARCH)
	}
	for _, program := range []string{"linux.uml", "gcc", "apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w; %s", err, install)
		}
	}
	if _, err := modules(); err != nil {
		return fmt.Errorf("%w; %s", err, install)
	}
	return nil
}

// modules is the folder with the modules of the kernel.
func modules() (string, error) {
	found, err := filepath.Glob(filepath.Join(modulesDir, "*"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%s: not the modules of one kernel but of %d", modulesDir, len(found))
	}
	return found[0], nil
}

// host is what all machines share.
type host struct {
	root     string // the root of all machines, which they cannot write
	tree     string // the packages in it
	programs string // folder with fencing-agent and fencectl
	preload  string // what linux.uml needs on processors with AMX
	modules  string
}

// newHost prepares what all machines share, in the folder cache. What is there already is not fetched again.
func newHost(ctx context.Context, cache, programs, preloadSource string, progress func(string)) (*host, error) {
	h := &host{programs: programs, preload: filepath.Join(cache, "xstate.so")}
	var err error
	if h.modules, err = modules(); err != nil {
		return nil, err
	}
	if h.tree, err = image.FetchPrograms(ctx, filepath.Join(cache, "peers"), progress, peerPackages...); err != nil {
		return nil, err
	}
	h.root = h.tree // links and folders more than what was unpacked
	if out, err := exec.CommandContext(ctx, "gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", h.preload, preloadSource, "-ldl").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("gcc: %w\n%s", err, out)
	}
	for _, dir := range []string{"proc", "sys", "dev", "run", "tmp", "root", "etc", "var", "node", "modules", "programs", "usr/lib/ocf/resource.d/lab"} {
		if err := os.MkdirAll(filepath.Join(h.root, dir), 0o755); err != nil {
			return nil, err
		}
	}
	for _, name := range commands {
		if err := os.Symlink("busybox", filepath.Join(h.root, "bin", name)); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	for path, text := range map[string]string{"init": string(initScript), "usr/lib/ocf/resource.d/lab/work": workAgent, "usr/sbin/fence_sbd": fenceAgent} {
		if err := os.WriteFile(filepath.Join(h.root, path), []byte(text), 0o755); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// version is that of a package.
func (h *host) version(name string) (string, error) { return image.Version(h.tree, name) }
