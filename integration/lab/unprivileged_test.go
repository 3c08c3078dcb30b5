package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

const nobody = 65534

// ordinaryMain is an ordinary user's program: it finds out what is possible, runs itself again in a user namespace, and
// builds a lab with a process there.
func ordinaryMain() int {
	err := Probe()
	switch {
	case err == nil:
		err = ordinaryLab()
	case InUserNamespace():
	case CanReexec() == nil:
		err = Reexec()
	default:
		fmt.Println("mode: none", err)
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func ordinaryLab() error {
	l, err := New(Config{Nodes: []string{"a", "b"}, Networks: []string{"net"}, Dir: os.Args[2]})
	if err != nil {
		return err
	}
	defer l.Close()
	p, err := l.StartProcess("a", helper(roleSleep))
	if err != nil {
		return err
	}
	if err := l.Cut([]string{"a"}); err != nil {
		return err
	}
	if err := p.Kill(); err != nil {
		return err
	}
	fmt.Println("lab worked, reexec again:", Reexec())
	return nil
}

// TestUnprivileged does what an ordinary user does. Root first becomes the user nobody, with a copy of the binary that
// nobody may read.
func TestUnprivileged(t *testing.T) {
	if InUserNamespace() {
		t.Skip("all tests already run in a user namespace")
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "lab.test")
	copyFile(t, "/proc/self/exe", binary)
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o777); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != filepath.Clean(os.TempDir()) && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(work, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, roleOrdinary, work)
	cmd.Dir = work
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) && len(out) == 0 {
		t.Skipf("this root may not become another user: %v", err)
	}
	t.Logf("%s", out)
	if bytes.HasPrefix(out, []byte("mode: none")) {
		t.Skip("ordinary users may not create namespaces here")
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out, []byte("lab worked")) {
		t.Error("the lab in the user namespace did not work")
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
