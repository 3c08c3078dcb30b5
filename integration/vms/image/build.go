package image

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/fencing-agent/fencing-agent/integration/vms/control"
)

// Machine is one machine for the image. Its Boot names modules by name; Build adds their files in the right order.
type Machine struct {
	Boot    control.Boot
	Modules []control.Module
}

// commands lists the commands that busybox provides in the image.
var commands = []string{
	"sh", "cat", "ls", "ps", "kill", "killall", "echo", "sleep", "dd", "date", "mount", "umount", "ip", "ping", "dmesg", "grep", "cp",
	"mv", "rm", "mkdir", "ln", "readlink", "head", "tail", "pidof", "sync", "touch", "chmod", "awk", "sed", "test", "tr", "printf", "free", "top", "wc", "yes",
}

// Image is the kernel and initial file system that QEMU boots.
type Image struct {
	Kernel string
	Initrd string
}

// Extra is additional content of an image: files of the host, and programs of a tree with the libraries they need. The
// keys are the paths in the image; the paths of programs are relative to the tree.
type Extra struct {
	Files    map[string]string
	Tree     string
	Programs map[string]string
}

// all returns the host's files by their paths in the image, including the libraries.
func (e Extra) all() (map[string]string, error) {
	files := map[string]string{}
	var programs []string
	for at, path := range e.Programs {
		files[at] = filepath.Join(e.Tree, path)
		programs = append(programs, files[at])
	}
	needed, err := libraries(e.Tree, programs...)
	maps.Copy(files, needed)
	maps.Copy(files, e.Files)
	return files, err
}

// find returns the path of a program in the packages of a tree, relative to the tree.
func find(tree, name string) string {
	for _, dir := range []string{"sbin", "bin", "usr/sbin"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(filepath.Join(tree, path)); err == nil {
			return path
		}
	}
	return filepath.Join("usr/bin", name)
}

// Build writes the image for the machines into dir. Guest is the path of the guest program, which is static.
func Build(tree, dir, guest string, machines []Machine, extra ...Extra) (*Image, error) {
	kernels, err := filepath.Glob(filepath.Join(tree, "boot", "vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		return nil, fmt.Errorf("expected one kernel below %s, found %d", tree, len(kernels))
	}
	img := &Image{Kernel: kernels[0], Initrd: filepath.Join(dir, "initrd")}
	out, err := os.Create(img.Initrd)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	a := newArchive(out)
	for _, d := range []string{"/dev", "/proc", "/sys", "/run", "/tmp", "/etc/iscsi/nodes", "/var/lib"} {
		a.dir(d)
	}
	base := Extra{Files: map[string]string{"/init": guest}, Tree: tree, Programs: map[string]string{
		"/bin/busybox": find(tree, "busybox"), "/sbin/iscsid": find(tree, "iscsid"), "/sbin/iscsiadm": find(tree, "iscsiadm"),
	}}
	for _, e := range append([]Extra{base}, extra...) {
		files, err := e.all()
		if err != nil {
			return nil, err
		}
		for at, from := range files {
			content, err := os.ReadFile(from)
			if err != nil {
				return nil, err
			}
			a.file(at, 0o755, content)
		}
	}
	for _, c := range commands {
		a.link("/bin/"+c, "busybox")
	}
	if err := addMachines(a, tree, machines); err != nil {
		return nil, err
	}
	if err := a.close(); err != nil {
		return nil, fmt.Errorf("image %s: %w", img.Initrd, err)
	}
	return img, nil
}

func addMachines(a *archive, tree string, machines []Machine) error {
	available, err := findModules(tree)
	if err != nil {
		return err
	}
	for _, m := range machines {
		boot := m.Boot
		var order []string
		options := map[string]string{}
		for _, module := range m.Modules {
			options[module.Path] = module.Options
			if order, err = available.order(order, module.Path); err != nil {
				return err
			}
		}
		for _, name := range order {
			at := "/lib/modules/" + filepath.Base(available[name])
			content, err := os.ReadFile(available[name])
			if err != nil {
				return err
			}
			a.file(at, 0o644, content)
			boot.Modules = append(boot.Modules, control.Module{Path: at, Options: options[name]})
		}
		text, err := json.Marshal(boot)
		if err != nil {
			return err
		}
		a.file(control.BootFile(boot.Name), 0o644, text)
	}
	return nil
}

// Install copies programs of a tree, and the libraries they need, into the folders bin and lib below root.
func Install(tree, root string, programs ...string) error {
	e := Extra{Tree: tree, Programs: map[string]string{}}
	for _, name := range programs {
		e.Programs["bin/"+name] = find(tree, name)
	}
	files, err := e.all()
	if err != nil {
		return err
	}
	for at, from := range files {
		if e.Programs[at] == "" {
			at = "lib/" + filepath.Base(at)
		}
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(at)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, at), content, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// Disk writes a file system with the content of the folder from into the file path.
func Disk(ctx context.Context, path, from string, megabytes int) error {
	_, err := output(ctx, "", "mke2fs", "-q", "-F", "-t", "ext4", "-d", from, path, fmt.Sprintf("%dM", megabytes))
	return err
}
