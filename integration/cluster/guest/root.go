package guest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/integration/cluster/cgroups"
	"github.com/fencing-agent/fencing-agent/integration/cluster/machine"
)

const bootID = "/proc/sys/kernel/random/boot_id"

// sysctls contains what a kubelet writes, with its values. All nodes and the host share one kernel, so files replace
// these sysctls.
var sysctls = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("guest: mount %s: %w", target, err)
	}
	return nil
}

// mounts gives the node its own /proc, /sys, /run and folders that survive a boot.
func mounts(s *machine.Spec) error {
	if err := unix.Sethostname([]byte(s.Name)); err != nil {
		return fmt.Errorf("guest: host name: %w", err)
	}
	const plain = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", plain, ""); err != nil {
		return err
	}
	if err := mount("sysfs", "/sys", "sysfs", plain, ""); err != nil {
		return err
	}
	if err := cgroups.Mount(); err != nil {
		return err
	}
	if err := mount("run", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	for _, path := range machine.Persistent {
		folder := filepath.Join(s.Dir, filepath.Base(path))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if err := mount(folder, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil { // including the disk below it
			return err
		}
	}
	// This is a file of the node's network namespace, and must be written before the others are covered.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	for name, value := range sysctls {
		if err := cover(s, "/proc/sys/"+name, value); err != nil {
			return err
		}
	}
	return cover(s, bootID, s.Boot)
}

// BootFile replaces the kernel's boot id in a node.
func BootFile(s *machine.Spec) string { return standIn(s, bootID) }

func standIn(s *machine.Spec, path string) string {
	return filepath.Join(s.Dir, "sysctl", strings.ReplaceAll(strings.TrimPrefix(path, "/proc/sys/"), "/", "."))
}

// cover mounts a file with this value over the kernel's file.
func cover(s *machine.Spec, path, value string) error {
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return nil // this kernel does not have the file
	}
	file := standIn(s, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	// Each boot has a new file: processes that are left of the last boot keep the old one.
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
		return err
	}
	return mount(file, path, "", unix.MS_BIND, "")
}

// devices creates a /dev that contains only harmless devices of the host, and the LUN.
func devices(s *machine.Spec) error {
	if err := mount("dev", "/dev", "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	old := unix.Umask(0)
	defer unix.Umask(old)
	for _, d := range []struct {
		name         string
		major, minor uint32
	}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"kmsg", 1, 11}, {"tty", 5, 0}} {
		if err := unix.Mknod("/dev/"+d.name, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return fmt.Errorf("guest: make /dev/%s: %w", d.name, err)
		}
	}
	if err := links(); err != nil {
		return err
	}
	if s.LUNPath != "" {
		if err := os.MkdirAll(filepath.Dir(s.LUNPath), 0o755); err != nil {
			return err
		}
		if err := unix.Mknod(s.LUNPath, unix.S_IFBLK|0o660, int(unix.Mkdev(s.LUN.Major, s.LUN.Minor))); err != nil {
			return fmt.Errorf("guest: make %s: %w", s.LUNPath, err)
		}
	}
	// This comes last: containers must see the volumes of their pods.
	return mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// links creates the links that no kernel puts into /dev.
func links() error {
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.RemoveAll("/dev/" + name); err != nil {
			return err
		}
		if err := os.Symlink(target, "/dev/"+name); err != nil {
			return err
		}
	}
	for _, folder := range []string{"pts", "shm", "mqueue"} {
		if err := os.MkdirAll("/dev/"+folder, 0o755); err != nil {
			return err
		}
	}
	if err := mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5"); err != nil {
		return err
	}
	return mount("shm", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777")
}

// network gives the ports their addresses, and the node routes to the pods of other nodes.
func network(s *machine.Spec) error {
	fail := func(what string, err error) error { return fmt.Errorf("guest: network: %s: %w", what, err) }
	up := func(name, address string) error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fail(name, err)
		}
		if address != "" {
			a, err := netlink.ParseAddr(address)
			if err != nil {
				return fail(name, err)
			}
			if err := netlink.AddrAdd(link, a); err != nil {
				return fail(name, err)
			}
		}
		return netlink.LinkSetUp(link)
	}
	if err := up("lo", ""); err != nil {
		return err
	}
	// The host's resolver cannot be reached. Without any resolver a look-up of a registry fails at once.
	if err := cover(s, "/etc/resolv.conf", ""); err != nil {
		return err
	}
	for _, p := range s.Ports {
		if err := up(p.Name, p.Address); err != nil {
			return err
		}
	}
	route := func(to, via string) error {
		r := &netlink.Route{Gw: net.ParseIP(via)}
		if to != "" {
			_, network, err := net.ParseCIDR(to)
			if err != nil {
				return err
			}
			r.Dst = network
		}
		if err := netlink.RouteAdd(r); err != nil {
			return fail("route to "+to, err)
		}
		return nil
	}
	for to, via := range s.Routes {
		if err := route(to, via); err != nil {
			return err
		}
	}
	return route("", s.Gateway)
}
