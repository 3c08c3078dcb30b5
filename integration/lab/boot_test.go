package lab

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestEachNodeHasABootOfItsOwn(t *testing.T) {
	needLab(t)
	n := newNetwork4(t)
	b := &boots{dir: t.TempDir(), launcher: []string{"/proc/self/exe", roleBoot}}
	host, err := os.ReadFile(bootID)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{strings.TrimSpace(string(host)): true}
	show := func(node string) string {
		t.Helper()
		argv := b.argv(node, []string{"/proc/self/exe", roleShowBoot})
		p, err := n.StartProcess(node, exec.Command(argv[0], argv[1:]...))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(t.Context()); err != nil {
			t.Fatalf("%v\n%s", err, lastLines(n.LogPath(node), 5))
		}
		_, id, _ := strings.Cut(lastLines(n.LogPath(node), 2), "boot ")
		id, _, _ = strings.Cut(id, "\n")
		if len(id) != 36 || seen[id] {
			t.Errorf("%s runs in boot %q, which is not a new boot", node, id)
		}
		return id
	}
	for _, node := range []string{"n1", "n2"} {
		if err := b.renew(node); err != nil {
			t.Fatal(err)
		}
		seen[show(node)] = true
	}
	if err := b.renew("n1"); err != nil {
		t.Fatal(err)
	}
	show("n1")
	if after, err := os.ReadFile(bootID); err != nil || string(after) != string(host) {
		t.Errorf("the machine's own boot id is now %q: %v", after, err)
	}
}

func TestExecInBootErrors(t *testing.T) {
	if err := ExecInBoot([]string{"file"}); err == nil {
		t.Error("no command: no error")
	}
	a := &Agents{}
	if err := a.Reboot("n1"); err == nil || errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "Boots") {
		t.Errorf("reboot without boots: %v", err)
	}
}
