package lunadmin

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// kernel reads what the kernel knows about devices. Tests use other directories.
type kernel struct {
	proc string // "/proc"
	sys  string // "/sys"
}

var thisKernel = kernel{proc: "/proc", sys: "/sys"}

// devno is a device number as sysfs and mountinfo print it.
type devno string

func devnoOf(rdev uint64) devno {
	return devno(fmt.Sprintf("%d:%d", unix.Major(rdev), unix.Minor(rdev)))
}

// users lists the users of a block device, of its partitions, or of the disk that it is a partition of: mounts, swap,
// device mapper, LVM, RAID. For a loop device, the users of its file count, too.
func (k kernel) users(number devno) []string {
	users := k.deviceUsers(number)
	if b, err := os.ReadFile(filepath.Join(k.blockDir(number), "loop", "backing_file")); err == nil {
		users = append(users, k.fileUsers(strings.TrimSuffix(string(b), "\n"), number)...)
	}
	return users
}

func (k kernel) blockDir(number devno) string {
	return filepath.Join(k.sys, "dev", "block", string(number))
}

func (k kernel) deviceUsers(number devno) []string {
	var users []string
	all := append([]devno{number}, k.partitions(number)...)
	if disk := k.disk(number); disk != "" {
		all = append(all, disk)
	}
	for _, d := range all {
		users = append(users, k.mounts(d)...)
		users = append(users, k.swaps(d)...)
		users = append(users, k.holders(d)...)
	}
	return users
}

// fileUsers lists the users of a regular file: swap, and loop devices other than except.
func (k kernel) fileUsers(path string, except devno) []string {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	var users []string
	for _, swap := range k.swapPaths() {
		if other, err := os.Stat(swap); err == nil && os.SameFile(info, other) {
			users = append(users, "in use as swap")
		}
	}
	backing, _ := filepath.Glob(filepath.Join(k.sys, "block", "loop*", "loop", "backing_file"))
	for _, b := range backing {
		name, err := os.ReadFile(b)
		if err != nil {
			continue
		}
		other, err := os.Stat(strings.TrimSuffix(string(name), "\n"))
		if err != nil || !os.SameFile(info, other) {
			continue
		}
		dir := filepath.Dir(filepath.Dir(b))
		number, err := os.ReadFile(filepath.Join(dir, "dev"))
		if err != nil || devno(strings.TrimSpace(string(number))) == except {
			continue
		}
		for _, u := range k.deviceUsers(devno(strings.TrimSpace(string(number)))) {
			users = append(users, u+" through /dev/"+filepath.Base(dir))
		}
	}
	return users
}

// partitions lists the partitions that the kernel knows on a device.
func (k kernel) partitions(number devno) []devno {
	var out []devno
	for _, dir := range k.partitionDirs(number) {
		if b, err := os.ReadFile(filepath.Join(dir, "dev")); err == nil {
			out = append(out, devno(strings.TrimSpace(string(b))))
		}
	}
	return out
}

func (k kernel) partitionDirs(number devno) []string {
	marks, _ := filepath.Glob(filepath.Join(k.blockDir(number), "*", "partition"))
	dirs := make([]string, len(marks))
	for i, m := range marks {
		dirs[i] = filepath.Dir(m)
	}
	return dirs
}

func (k kernel) partitionNames(number devno) []string {
	var names []string
	for _, dir := range k.partitionDirs(number) {
		names = append(names, filepath.Base(dir))
	}
	return names
}

func (k kernel) holders(number devno) []string {
	entries, err := os.ReadDir(filepath.Join(k.blockDir(number), "holders"))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		name := "/dev/" + e.Name()
		if b, err := os.ReadFile(filepath.Join(k.blockDir(number), "holders", e.Name(), "dm", "name")); err == nil {
			name = "/dev/mapper/" + strings.TrimSpace(string(b))
		}
		out = append(out, "held by "+name)
	}
	return out
}

// mounts lists where a device is mounted, in the mount namespaces of this process and of init.
func (k kernel) mounts(number devno) []string {
	seen := map[string]bool{}
	var out []string
	for _, table := range []string{"self/mountinfo", "1/mountinfo"} {
		for _, m := range k.mountTable(table) {
			if m.number != number && k.numberOf(m.source) != number || seen[m.point] {
				continue
			}
			seen[m.point] = true
			out = append(out, "mounted at "+m.point)
		}
	}
	return out
}

type mount struct {
	number devno
	point  string
	source string // the device of a file system with an anonymous number, such as btrfs
}

func (k kernel) mountTable(name string) []mount {
	b, err := os.ReadFile(filepath.Join(k.proc, name))
	if err != nil {
		return nil // /proc/1 may not be readable; the exclusive open of the device decides
	}
	var out []mount
	for line := range strings.Lines(string(b)) {
		head, tail, ok := strings.Cut(line, " - ")
		fields, rest := strings.Fields(head), strings.Fields(tail)
		if !ok || len(fields) < 5 || len(rest) < 2 {
			continue
		}
		out = append(out, mount{devno(fields[2]), unescape(fields[4]), unescape(rest[1])})
	}
	return out
}

func (k kernel) numberOf(path string) devno {
	if !filepath.IsAbs(path) {
		return ""
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return ""
	}
	return devnoOf(uint64(st.Rdev))
}

func (k kernel) swaps(number devno) []string {
	for _, path := range k.swapPaths() {
		if k.numberOf(path) == number {
			return []string{"in use as swap"}
		}
	}
	return nil
}

func (k kernel) swapPaths() []string {
	b, err := os.ReadFile(filepath.Join(k.proc, "swaps"))
	if err != nil {
		return nil
	}
	var out []string
	for i, line := range strings.Split(string(b), "\n") {
		if fields := strings.Fields(line); i > 0 && len(fields) > 1 {
			out = append(out, unescape(fields[0]))
		}
	}
	return out
}

// unescape undoes the \ooo of /proc tables.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
