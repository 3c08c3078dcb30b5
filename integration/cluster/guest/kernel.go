package guest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/integration/cluster/cgroups"
	"github.com/fencing-agent/fencing-agent/integration/cluster/machine"
	"github.com/fencing-agent/fencing-agent/integration/lab"
)

// These are the names of the devices in a node that has its own kernel.
const (
	diskDevice  = "/dev/ubda"
	lunDevice   = "/dev/ubdb"
	lineDevice  = "/dev/ttyS0"
	portDevice  = "vec%d"
	lunSector   = 512
	mounted     = "disk" // folder of the node, on which its disk is mounted
	restrictive = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
)

// kernel sets up the machine if it has its own kernel. This process is then process 1. Its root file system is the
// host's, which it cannot write.
func kernel(path string, s *machine.Spec) error {
	// No process has set an environment before this one.
	for name, value := range map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": "/run", "HOME": "/run"} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	for _, step := range []func(*machine.Spec) error{kernelMounts, modules, func(*machine.Spec) error { return links() }, rename, network, processors} {
		if err := step(s); err != nil {
			return err
		}
	}
	// Containers must see the volumes of their pods.
	if err := mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return err
	}
	line, err := openLine()
	if err != nil {
		return err
	}
	return startServe(path, line)
}

func kernelMounts(s *machine.Spec) error {
	if err := unix.Sethostname([]byte(s.Name)); err != nil {
		return fmt.Errorf("guest: host name: %w", err)
	}
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"proc", "/proc", "proc", restrictive, ""},
		{"sysfs", "/sys", "sysfs", restrictive, ""},
		{"run", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		{"none", s.Dir, "hostfs", 0, s.Dir},
	} {
		if err := mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return err
		}
	}
	if s.Volumes != "" {
		if err := mount("none", s.Volumes, "hostfs", 0, s.Volumes); err != nil {
			return err
		}
	}
	if err := cgroups.MountOwn(); err != nil {
		return err
	}
	disk := filepath.Join(s.Dir, mounted)
	if err := mount(diskDevice, disk, "ext4", 0, ""); err != nil {
		return err
	}
	for _, path := range machine.Persistent {
		folder := filepath.Join(disk, filepath.Base(path))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if err := mount(folder, path, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

// modules loads the modules of the running kernel that containers, their network and the watchdog need.
func modules(s *machine.Spec) error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	folder := filepath.Join(s.Modules, unix.ByteSliceToString(name.Release[:]))
	needs, err := os.ReadFile(filepath.Join(folder, "modules.dep"))
	if err != nil {
		return fmt.Errorf("guest: modules: %w", err)
	}
	for _, m := range [][2]string{
		{"overlay"}, {"bridge"}, {"veth"}, {"loop"},
		// User-mode Linux does not survive a restart by this driver; a panic ends it at once.
		{"softdog", "soft_panic=1 nowayout=0"},
	} {
		if err := load(folder, needs, m[0], m[1]); err != nil {
			return err
		}
	}
	return nil
}

// load loads a module after the modules that it needs.
func load(folder string, needs []byte, name, options string) error {
	lines := bufio.NewScanner(bytes.NewReader(needs))
	for lines.Scan() {
		path, others, ok := strings.Cut(lines.Text(), ":")
		if !ok || filepath.Base(path) != name+".ko" {
			continue
		}
		for other := range strings.FieldsSeq(others) {
			if err := load(folder, needs, strings.TrimSuffix(filepath.Base(other), ".ko"), ""); err != nil {
				return err
			}
		}
		file, err := os.Open(filepath.Join(folder, path))
		if err != nil {
			return err
		}
		defer file.Close()
		if err := unix.FinitModule(int(file.Fd()), options, 0); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("guest: load %s: %w", name, err)
		}
		return nil
	}
	return fmt.Errorf("guest: no module %s in %s", name, folder)
}

// attachLUN gives the LUN to a node that has its own kernel. It uses a loop device of that kernel, so that the node can
// lose it. The device exists as long as the calling process.
func attachLUN(s *machine.Spec) (*lab.LoopSet, error) {
	if s.LUNPath == "" || s.Modules == "" {
		return nil, nil
	}
	lun, err := lab.LoopDevices(lunDevice, 1, lunSector)
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := errors.Join(os.MkdirAll(filepath.Dir(s.LUNPath), 0o755), unix.Stat(lun.Paths[0], &stat)); err != nil {
		return nil, err
	}
	if err := unix.Mknod(s.LUNPath, unix.S_IFBLK|0o660, int(stat.Rdev)); err != nil {
		return nil, fmt.Errorf("guest: make %s: %w", s.LUNPath, err)
	}
	return lun, nil
}

// lunFault makes the LUN of a node that has its own kernel fail, or ends that fault.
func lunFault(lun *lab.LoopSet, what string) error {
	switch {
	case lun == nil:
		return errors.New("guest: the LUN is a device of the harness")
	case what == machine.Lose:
		return lun.Lose(0)
	}
	return lun.Restore(0)
}

// rename gives the interfaces the names that the node expects.
func rename(s *machine.Spec) error {
	for i, p := range s.Ports {
		link, err := netlink.LinkByName(fmt.Sprintf(portDevice, i))
		if err != nil {
			return fmt.Errorf("guest: network %s: %w", p.Name, err)
		}
		if err := errors.Join(netlink.LinkSetName(link, p.Name), netlink.LinkSetHardwareAddr(link, p.Hardware)); err != nil {
			return fmt.Errorf("guest: network %s: %w", p.Name, err)
		}
	}
	return nil
}

// processors provides the clock rate that the kubelet needs and that User-mode Linux does not report.
func processors(s *machine.Spec) error {
	const path = "/proc/cpuinfo"
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if bytes.Contains(text, []byte("cpu MHz")) {
		return nil
	}
	return cover(s, path, strings.TrimRight(string(text), "\n")+"\ncpu MHz\t\t: 1000.000\n")
}

// openLine opens the serial line to the harness, in raw mode.
func openLine() (*os.File, error) {
	line, err := os.OpenFile(lineDevice, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	fd := int(line.Fd())
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("guest: %s: %w", lineDevice, err)
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
		return nil, fmt.Errorf("guest: %s: %w", lineDevice, err)
	}
	return line, nil
}

// power is process 1 of a PID namespace of the host, around a kernel; when it ends, the kernel ends. A kernel that
// panics ends itself with a signal, which it would not receive as process 1.
func power(argv []string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(control, "line")}
	return cmd.Run()
}

// off ends a machine that has its own kernel; its process 1 must not end in another way.
func off(cause error) {
	fmt.Fprintln(os.Stderr, "node:", cause)
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// startServe starts the part that runs the node, and ends when that part ends.
func startServe(path string, line *os.File) error {
	cmd := exec.Command("/proc/self/exe", "serve", path)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{line}
	if err := cmd.Start(); err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case pid == cmd.Process.Pid:
			return fmt.Errorf("guest: serve ended: %v", status)
		}
	}
}
