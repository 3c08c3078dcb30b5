package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// containerd is a separate containerd with only images and containers.
type containerd struct {
	t        *testing.T
	programs string // folder with containerd, ctr, its shim and runc
	socket   string
}

// newContainerd starts it. make test-cluster compiles the programs.
func newContainerd(t *testing.T) *containerd {
	t.Helper()
	programs := os.Getenv("FENCING_RUNTIME")
	if _, err := os.Stat(filepath.Join(programs, "containerd")); programs == "" || err != nil {
		t.Skip("needs containerd and runc in FENCING_RUNTIME: make test-cluster compiles them into bin/runtime")
	}
	// The path must be short because of the sockets.
	dir, err := os.MkdirTemp("", "ctd")
	if err != nil {
		t.Fatal(err)
	}
	// What is left is in the temporary folder.
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &containerd{t: t, programs: programs, socket: filepath.Join(dir, "c.sock")}
	conf := fmt.Sprintf("version = 3\nroot = %q\nstate = %q\ndisabled_plugins = [%q, %q, %q]\n[grpc]\naddress = %q\n[ttrpc]\naddress = %q\n",
		filepath.Join(dir, "root"), filepath.Join(dir, "state"),
		"io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime",
		c.socket, c.socket+".ttrpc")
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(programs, "containerd"), "--config", filepath.Join(dir, "config.toml"))
	log := new(strings.Builder)
	cmd.Env, cmd.Stdout, cmd.Stderr = c.env(), log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM) // it may already have ended
		<-done
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		conn, err := net.Dial("unix", c.socket)
		if err == nil {
			_ = conn.Close()
			return c
		}
		select {
		case <-tick.C:
		case err := <-done:
			done <- err
			t.Fatalf("containerd: %v\n%s", err, log)
		case <-ctx.Done():
			t.Fatal("containerd does not listen")
		}
	}
}

func (c *containerd) env() []string {
	return append(os.Environ(), "PATH="+c.programs+":"+os.Getenv("PATH"))
}

// ctr runs containerd's client.
func (c *containerd) ctr(args ...string) string {
	c.t.Helper()
	cmd := exec.Command(filepath.Join(c.programs, "ctr"), append([]string{"--address", c.socket}, args...)...)
	cmd.Env = c.env()
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("ctr %v: %v\n%s%s", args, err, out, &complaint)
	}
	return string(out)
}

// containerd loads the images of a release without changes, for this machine's architecture, and their programs run.
func TestImagesInContainerd(t *testing.T) {
	dir := made(t)
	c := newContainerd(t)
	for _, i := range pictures {
		found, err := filepath.Glob(filepath.Join(dir, i.name+"_*.oci.tar"))
		if err != nil || len(found) != 1 {
			t.Fatal(i.name, found, err)
		}
		c.ctr("images", "import", "--local", "--snapshotter", "native", "--base-name", "registry.example.com/"+i.name, found[0])
		var ref string
		for _, name := range strings.Fields(c.ctr("images", "ls", "--quiet")) {
			if strings.HasPrefix(name, "registry.example.com/"+i.name+":v") {
				ref = name
			}
		}
		if ref == "" {
			t.Fatalf("%s: no image of that name", i.name)
		}
		for n, program := range i.programs {
			out := c.ctr("run", "--rm", "--snapshotter", "native", ref, fmt.Sprintf("%s-%d", i.name, n), "/usr/local/bin/"+program, "--version")
			version := strings.ReplaceAll(ref[strings.LastIndex(ref, ":")+1:], "_", "+") // a tag contains no plus
			if !strings.Contains(out, version) {
				t.Errorf("%s: %s --version says %q, and the tag is %s", ref, program, out, version)
			}
		}
	}
}

// The executor's image is made from the release: the steps of its Dockerfile are done with the files of the archive, by
// the script that replaces a container tool. The fence agents are in it, and the executor runs.
func TestExecutorFromItsArchive(t *testing.T) {
	dir := made(t)
	work := t.TempDir()
	found, err := filepath.Glob(filepath.Join(dir, executor+"_*_linux_"+nodes[0].machine+".tar.gz"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	if out, err := exec.Command("tar", "-xzf", found[0], "-C", work).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	d := &debian{t, filepath.Join(work, "root")}
	cmd := exec.Command("sh", "root.sh", d.root, "bin/"+executor)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("root.sh: %v\n%s", err, out)
	}
	if err := os.MkdirAll(filepath.Join(d.root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	d.must("fence_ipmilan --version && fence_ipmilan -o metadata", "<parameter name=\"ip\"")
	d.must("/usr/local/bin/fencing-executor --help", "fencing-executor")
	if out, err := d.try("ls /usr/share/fence /usr/sbin/fence_*"); err != nil || !strings.Contains(out, "fence_apc") {
		t.Errorf("the agents: %v, %s", err, out)
	}
}
