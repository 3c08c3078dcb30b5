//go:build unix

package hookdir

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines are what a runner says.
type lines struct {
	mu   sync.Mutex
	all  []string
	more chan struct{}
}

func (l *lines) say(line string) {
	l.mu.Lock()
	l.all = append(l.all, line)
	l.mu.Unlock()
	l.more <- struct{}{}
}

// await waits until n lines were said.
func (l *lines) await(t *testing.T, n int) []string {
	t.Helper()
	for range n {
		select {
		case <-l.more:
		case <-time.After(20 * time.Second):
			l.mu.Lock()
			defer l.mu.Unlock()
			t.Fatalf("only %q after 20 s, want %d lines", l.all, n)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

func open(t *testing.T, timeout time.Duration) (*Runner, string, *lines) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l := &lines{more: make(chan struct{}, 100)}
	r, err := Open(Config{Dir: dir, Timeout: timeout, Say: l.say})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r, dir, l
}

func program(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
}

func death(node string) Death { return Death{Fenced, node, "024bc581b3a34be3", "sentence"} }

// TestRunsInOrder: each program by its name, with what happened as arguments; one that fails does not keep the next.
func TestRunsInOrder(t *testing.T) {
	r, dir, l := open(t, time.Minute)
	log := filepath.Join(t.TempDir(), "log")
	program(t, filepath.Join(dir, "20-b.sh"), `echo "b $@" >>`+log, 0o755)
	program(t, filepath.Join(dir, "10-a"), `echo "a $@" >>`+log+`; echo oh no >&2; exit 7`, 0o755)
	r.Tell(death("n3"))
	r.Tell(Death{Withdrawn, "n3", "of-before", "time"})
	said := l.await(t, 4)
	got, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	const want = "a fenced n3 024bc581b3a34be3 sentence\nb fenced n3 024bc581b3a34be3 sentence\n" +
		"a withdrawn n3 of-before time\nb withdrawn n3 of-before time\n"
	if string(got) != want {
		t.Errorf("ran %q, want %q", got, want)
	}
	if !strings.HasPrefix(said[0], "10-a fenced n3 024bc581b3a34be3 sentence: exit status 7 after ") || !strings.HasSuffix(said[0], ": it says: oh no") {
		t.Errorf("of the one that fails it says %q", said[0])
	}
	if !strings.HasPrefix(said[1], "20-b.sh fenced n3 024bc581b3a34be3 sentence: done in ") {
		t.Errorf("of the next it says %q", said[1])
	}
}

// TestRefusesWhatOthersCanChange, and what is no program.
func TestRefusesWhatOthersCanChange(t *testing.T) {
	r, dir, l := open(t, time.Minute)
	for name, mode := range map[string]os.FileMode{
		"everybody": 0o757, "group": 0o775, "not-executable": 0o644, ".hidden": 0o755, "backup~": 0o755, "new.dpkg-dist": 0o755,
	} {
		program(t, filepath.Join(dir, name), "touch "+filepath.Join(dir, "ran-"+name), mode)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.Tell(death("n3"))
	said := strings.Join(l.await(t, 4), "\n")
	for _, want := range []string{"everybody can be changed by everybody", "group can be changed by its group", "not-executable is not executable", "no programs in "} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if ran, _ := filepath.Glob(filepath.Join(dir, "ran-*")); len(ran) > 0 {
		t.Errorf("ran %v", ran)
	}
	if os.Geteuid() == 0 {
		mine := filepath.Join(dir, "of-another")
		program(t, mine, "true", 0o755)
		if err := os.Chown(mine, 12345, -1); err != nil {
			t.Fatal(err)
		}
		r.Tell(death("n3"))
		if said := strings.Join(l.await(t, 5), "\n"); !strings.Contains(said, "of-another can be changed by its owner") {
			t.Errorf("a program of another user: %s", said)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	program(t, file, "true", 0o755)
	loose := filepath.Join(dir, "loose")
	if err := os.Mkdir(loose, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(loose, 0o777); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{filepath.Join(dir, "none"): "no such file", file: "is no directory", loose: "can be changed by everybody"} {
		if _, err := Open(Config{Dir: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// TestEndsWhatTakesTooLong, with what it has started; other nodes do not wait for it, nor does who tells.
func TestEndsWhatTakesTooLong(t *testing.T) {
	r, dir, l := open(t, 500*time.Millisecond)
	child := filepath.Join(t.TempDir(), "child")
	program(t, filepath.Join(dir, "hang"), `[ "$2" = fast ] && exit 0
sleep 1000 & echo $! >`+child+`
wait`, 0o755)
	r.Tell(death("slow"))
	r.Tell(death("slow"))
	r.Tell(death("fast"))
	said := l.await(t, 1)
	if !strings.HasPrefix(said[0], "hang fenced fast ") {
		t.Errorf("first it says %q", said[0])
	}
	if said = l.await(t, 1); !strings.Contains(said[1], "hang fenced slow 024bc581b3a34be3 sentence: ended after 500ms, it took too long") {
		t.Errorf("then %q", said[1])
	}
	pid, err := os.ReadFile(child)
	if err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join("/proc", strings.TrimSpace(string(pid)), "stat")
	for end := time.Now().Add(20 * time.Second); ; {
		stat, err := os.ReadFile(gone)
		if err != nil || strings.Contains(string(stat), ") Z ") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("what the program has started runs on: %s", stat)
		}
	}
}

// TestManyNodes: each death is told once, and in the order of its node, however they are mixed.
func TestManyNodes(t *testing.T) {
	r, dir, l := open(t, time.Minute)
	logs := t.TempDir()
	program(t, filepath.Join(dir, "log"), `echo "$1 $3" >>`+logs+`/"$2"`, 0o755)
	const nodes, rounds = 8, 5
	for i := range rounds {
		for n := range nodes {
			r.Tell(Death{Fenced, fmt.Sprint("n", n), fmt.Sprint(i), "time"})
		}
	}
	l.await(t, nodes*rounds)
	for n := range nodes {
		got, _ := os.ReadFile(filepath.Join(logs, fmt.Sprint("n", n)))
		if want := "fenced 0\nfenced 1\nfenced 2\nfenced 3\nfenced 4\n"; string(got) != want {
			t.Errorf("n%d: %q", n, got)
		}
	}
}

// TestWithdrawnEndsWhatItTakesBack: a takeover must not begin, or go on, for a node that is known to run.
func TestWithdrawnEndsWhatItTakesBack(t *testing.T) {
	r, dir, l := open(t, time.Hour)
	begun, log := filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "log")
	program(t, filepath.Join(dir, "10-slow"), `[ "$1 $3" = "fenced old" ] || exit 0; touch `+begun+`; exec sleep 1000`, 0o755)
	program(t, filepath.Join(dir, "20-takeover"), `echo "$1 $3" >>`+log, 0o755)
	r.Tell(Death{Fenced, "n3", "old", "time"})
	awaitFile(t, begun)
	r.Tell(Death{Fenced, "n3", "next", "time"})    // waits, and is taken back as well
	r.Tell(Death{Fenced, "n3", "another", "time"}) // waits, and stands
	r.Tell(Death{Withdrawn, "n3", "next", "time"})
	r.Tell(Death{Withdrawn, "n3", "old", "time"})
	said := l.await(t, 9)
	if !strings.Contains(said[0], "10-slow fenced n3 old time: ended: the death is withdrawn") || said[1] != "20-takeover is not run for fenced n3: the death is withdrawn" {
		t.Errorf("of the death that is withdrawn it says %q", said[:2])
	}
	if got, _ := os.ReadFile(log); string(got) != "fenced another\nwithdrawn next\nwithdrawn old\n" {
		t.Errorf("the takeover saw %q", got)
	}
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s is not there", path)
		}
	}
}

// TestClose ends what runs, and starts nothing more.
func TestClose(t *testing.T) {
	r, dir, l := open(t, time.Hour)
	begun := filepath.Join(t.TempDir(), "begun")
	program(t, filepath.Join(dir, "a"), "touch "+begun+"; exec sleep 1000", 0o755)
	program(t, filepath.Join(dir, "b"), "true", 0o755)
	r.Tell(death("n3"))
	awaitFile(t, begun)
	r.Close()
	r.Tell(death("n4"))
	if said := l.await(t, 2); !strings.Contains(said[0], ": ended: this program was asked to stop") || !strings.HasPrefix(said[1], "b is not run for fenced n3: ") {
		t.Errorf("it says %q", said)
	}
}
