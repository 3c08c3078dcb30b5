package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// root is the folder in which all hosts mount their hierarchies.
const root = "/sys/fs/cgroup"

// hierarchy is a control group hierarchy that the host has mounted.
type hierarchy struct {
	point   string // the mount point
	options string // with v1: its controllers, or its name; empty: v2
}

func (h hierarchy) unified() bool { return h.options == "" }

// hierarchies returns those of v1, or the one of v2 if there are none.
func hierarchies() ([]hierarchy, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	all := parseMounts(string(text))
	if len(all) == 0 {
		return nil, errors.New("cgroups: none is mounted below " + root)
	}
	return all, nil
}

// parseMounts finds the hierarchies in a mountinfo.
func parseMounts(text string) []hierarchy {
	var v1, v2 []hierarchy
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
		fields, super := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 5 || len(super) < 3 {
			continue
		}
		point := fields[4]
		switch {
		case super[0] == "cgroup" && filepath.Dir(point) == root:
			options := slices.DeleteFunc(strings.Split(super[2], ","), func(o string) bool {
				return o == "rw" || o == "ro" || o == "none" || o == "xattr" || o == "clone_children" || strings.HasPrefix(o, "release_agent=")
			})
			v1 = append(v1, hierarchy{point: point, options: strings.Join(options, ",")})
		case super[0] == "cgroup2" && point == root:
			v2 = append(v2, hierarchy{point: point})
		}
	}
	if len(v1) > 0 {
		return v1
	}
	return v2
}

// own returns the folder of this process's group in the hierarchy.
func (h hierarchy) own(selfCgroup string) string {
	if h.unified() {
		return h.point
	}
	for line := range strings.Lines(selfCgroup) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && sameControllers(parts[1], h.options) {
			folder := filepath.Join(h.point, parts[2])
			if _, err := os.Stat(folder); err == nil { // in a container the mount may begin at that group
				return folder
			}
		}
	}
	return h.point
}

func sameControllers(a, b string) bool {
	x, y := strings.Split(a, ","), strings.Split(b, ",")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// Set contains the groups of one cluster, one in each hierarchy.
type Set struct {
	dirs []string
	all  []hierarchy
}

// Create creates the groups.
func Create(name string) (*Set, error) {
	s, err := find(name)
	if err != nil {
		return nil, err
	}
	for i, dir := range s.dirs {
		if err := s.mkdir(i, dir); err != nil {
			return nil, errors.Join(err, s.Remove())
		}
	}
	return s, nil
}

// Find returns the groups that were created with that name.
func Find(name string) *Set {
	s, err := find(name)
	if err != nil {
		return &Set{}
	}
	return s
}

func find(name string) (*Set, error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	s := &Set{all: all}
	for _, h := range all {
		s.dirs = append(s.dirs, filepath.Join(h.own(string(self)), name))
	}
	return s, nil
}

// mkdir creates a group that processes can join, and that can delegate controllers to groups below it.
func (s *Set) mkdir(i int, dir string) error {
	if s.all[i].unified() {
		if err := handDown(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	// A new group of v1 has no processors.
	if slices.Contains(strings.Split(s.all[i].options, ","), "cpuset") {
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			text, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, file), text, 0)
			}
			if err != nil {
				return fmt.Errorf("cgroups: %w", err)
			}
		}
	}
	return nil
}

// handDown delegates to the groups below a group all controllers of v2 that it has.
func handDown(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	for controller := range strings.FieldsSeq(string(text)) {
		switch controller {
		case "cpu", "cpuset", "io", "memory", "pids", "hugetlb":
			if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0); err != nil {
				return fmt.Errorf("cgroups: hand %s down: %w", controller, err)
			}
		}
	}
	return nil
}

// Make creates the groups of a node.
func (s *Set) Make(node string) error {
	for i, dir := range s.dirs {
		if err := s.mkdir(i, filepath.Join(dir, node)); err != nil {
			return err
		}
	}
	return nil
}

// Dirs returns the groups of a node, for [Join].
func (s *Set) Dirs(node string) []string {
	var dirs []string
	for _, dir := range s.dirs {
		dirs = append(dirs, filepath.Join(dir, node))
	}
	return dirs
}

// Join moves this process into the groups.
func Join(dirs []string) error {
	for _, dir := range dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("cgroups: join: %w", err)
		}
	}
	return nil
}

// Freeze stops all processes of a node, or resumes them.
func (s *Set) Freeze(node string, frozen bool) error {
	for i, dir := range s.Dirs(node) {
		var file, value string
		switch {
		case s.all[i].unified():
			file, value = "cgroup.freeze", map[bool]string{true: "1", false: "0"}[frozen]
		case slices.Contains(strings.Split(s.all[i].options, ","), "freezer"):
			file, value = "freezer.state", map[bool]string{true: "FROZEN", false: "THAWED"}[frozen]
		default:
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
			return fmt.Errorf("cgroups: freeze: %w", err)
		}
		return nil
	}
	return errors.New("cgroups: freeze: no hierarchy on this host has a freezer")
}

// Clear removes the groups of a node that has ended, with all groups below them. If a kubelet found them at the next
// boot, it would wait for the containers of the last one.
func (s *Set) Clear(node string) error { return removeAll(s.Dirs(node)) }

// Remove removes all groups.
func (s *Set) Remove() error { return removeAll(s.dirs) }

func removeAll(dirs []string) error {
	var errs []error
	for _, top := range dirs {
		var below []string
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				below = append(below, path)
			}
			return nil // it is already gone
		})
		errs = append(errs, err)
		slices.Reverse(below)
		for _, dir := range below {
			errs = append(errs, rmdir(dir))
		}
	}
	return errors.Join(errs...)
}

func rmdir(dir string) error {
	deadline := time.Now().Add(time.Second)
	for {
		err := unix.Rmdir(dir)
		switch {
		case err == nil, errors.Is(err, unix.ENOENT):
			return nil
		case errors.Is(err, unix.EBUSY) && time.Now().Before(deadline):
			time.Sleep(10 * time.Millisecond)
		default:
			return fmt.Errorf("cgroups: remove %s: %w", dir, err)
		}
	}
}

// Mount mounts the host's hierarchies again, in a new control group namespace whose root is this process's groups, and
// prepares them for a kubelet.
func Mount() error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	if all[0].unified() {
		return mountUnified()
	}
	if err := unix.Mount("cgroup", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755"); err != nil {
		return fmt.Errorf("cgroups: mount %s: %w", root, err)
	}
	for _, h := range all {
		if err := os.Mkdir(h.point, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("cgroup", h.point, "cgroup", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, h.data()); err != nil {
			return fmt.Errorf("cgroups: mount %s: %w", h.point, err)
		}
		for controller := range strings.SplitSeq(h.options, ",") { // cpu -> cpu,cpuacct
			link := filepath.Join(root, controller)
			if _, err := os.Lstat(link); err != nil && !strings.HasPrefix(controller, "name=") {
				if err := os.Symlink(filepath.Base(h.point), link); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// data returns the mount options that name the hierarchy to the kernel.
func (h hierarchy) data() string {
	if strings.HasPrefix(h.options, "name=") {
		return "none," + h.options
	}
	return h.options
}

// MountOwn mounts the hierarchy of a kernel that has no other user, and prepares it for a kubelet.
func MountOwn() error { return mountUnified() }

func mountUnified() error {
	if err := unix.Mount("cgroup2", root, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("cgroups: mount %s: %w", root, err)
	}
	first := filepath.Join(root, "init")
	if err := os.Mkdir(first, 0o755); err != nil {
		return err
	}
	if err := Join([]string{first}); err != nil {
		return err
	}
	return handDown(root)
}
