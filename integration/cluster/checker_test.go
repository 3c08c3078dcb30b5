package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster/csi"
)

// checker looks at the workload from outside: at the processes that really run, as the kernel
// lists them, at what the storage has attached, and at what was written to the volume. It asks
// neither Kubernetes nor the controller, and shares no code with them.
//
// The rules, whatever happens:
//
//   - One ordinal runs once: no two processes of one pod's name at one moment.
//   - Who runs has the volume: no process on a node that the storage has not attached it to.
//   - One writer at a time: in the volume's file no two writers' lines are mixed.
//   - The storage was never asked to attach a volume to a second node.
type checker struct {
	volume  string // the path of its folder on the host
	storage func() (node string)
	leave   func(pid int) bool // whether a process belongs to another workload, such as another cluster's; nil: none
	blind   bool               // nodes with a kernel of their own hide their processes and cache the file: only the last rule is checked

	mu     sync.Mutex
	broken []string
	seen   map[string]bool // the nodes and boots of the pods, by UID
	last   []worker
	met    map[string]bool // UIDs that had a process in some check

	starting map[int]bool // processes that were runc at the last check; only look uses it
}

func newChecker(volume string, storage func() string) *checker {
	return &checker{volume: volume, storage: storage, seen: map[string]bool{}, met: map[string]bool{}, starting: map[int]bool{}}
}

// worker is a process of the workload.
type worker struct {
	pid            int
	pod, uid, node string
}

// look checks one moment.
func (k *checker) look(young map[int]time.Time, known map[int]worker) {
	before := k.storage()
	now := time.Now()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	there := map[int]bool{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || k.leave != nil && k.leave(pid) {
			continue
		}
		there[pid] = true
		first, ok := young[pid]
		if !ok {
			young[pid], first = now, now
		}
		// It may still become another program.
		if _, ok := known[pid]; ok || k.starting[pid] || now.Sub(first) < 10*time.Second {
			if w, ok := workerOf(pid); ok {
				known[pid] = w
			} else {
				delete(known, pid)
			}
			was := k.starting[pid]
			if k.starting[pid] = starts(pid); was && !k.starting[pid] {
				young[pid] = now // it is becoming another program, and may not show which
			}
		}
	}
	for pid := range young {
		if !there[pid] {
			delete(young, pid)
			delete(known, pid)
			delete(k.starting, pid)
		}
	}
	after := k.storage()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = slices.Collect(maps.Values(known))
	byPod := map[string][]worker{}
	for _, w := range known {
		k.met[w.uid] = true
		byPod[w.pod] = append(byPod[w.pod], w)
		if before == after && w.node != before {
			k.fail("%s runs on %s (process %d, %s), and the volume is attached to %q", w.pod, w.node, w.pid, w.uid, before)
		}
	}
	for pod, all := range byPod {
		if len(all) > 1 {
			k.fail("%s runs %d times: %+v", pod, len(all), all)
		}
	}
}

// The caller of fail holds mu.
func (k *checker) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !k.seen[text] {
		k.seen[text] = true
		k.broken = append(k.broken, time.Now().Format("15:04:05.000 ")+text)
	}
}

// starts reports whether a process is a container that was created and not yet started, or a process that starts
// containers. On a busy host this can take a minute.
func starts(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	program, _, _ := bytes.Cut(line, []byte{0})
	return err == nil && filepath.Base(string(program)) == "runc"
}

// workerOf reads from the kernel what a process is. A process that has ended, and whose parent has not yet noticed, has
// no command line.
func workerOf(pid int) (worker, bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || !bytes.HasPrefix(line, []byte("/tool\x00write\x00")) && !bytes.HasPrefix(line, []byte("/tool\x00stubborn\x00")) {
		return worker{}, false
	}
	environ, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return worker{}, false
	}
	w := worker{pid: pid}
	for _, v := range strings.Split(string(environ), "\x00") {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "POD_NAME":
			w.pod = value
		case "POD_UID":
			w.uid = value
		case "NODE_NAME":
			w.node = value
		}
	}
	return w, w.pod != ""
}

// watch checks until the context ends.
func (k *checker) watch(ctx context.Context) {
	young, known := map[int]time.Time{}, map[int]worker{}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		k.look(young, known)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// blindAfter is the number of lines, one each 20 ms, that nobody can write without being seen in one of twenty checks.
const blindAfter = 50

// stint is the time of one writer, from its first line to its last.
type stint struct {
	uid, node, boot string
	first, last     time.Time
	lines           int
}

// stints returns the stints in the volume, ordered by their first lines.
func (k *checker) stints() ([]stint, error) {
	if k.blind {
		return nil, nil
	}
	text, err := os.ReadFile(filepath.Join(k.volume, "writers"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []stint
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			// The last line is still being written.
			break
		}
		f := strings.Fields(line)
		if len(f) != 4 {
			return nil, fmt.Errorf("a torn line: %q", line)
		}
		n, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("a torn line: %q", line)
		}
		at := time.Unix(0, n)
		i := slices.IndexFunc(out, func(s stint) bool { return s.uid == f[1] && s.node == f[2] && s.boot == f[3] })
		if i < 0 {
			out, i = append(out, stint{uid: f[1], node: f[2], boot: f[3], first: at}), len(out)
		}
		out[i].last, out[i].lines = at, out[i].lines+1
	}
	return out, nil
}

// verdict returns the violations since the last verdict.
func (k *checker) verdict(changes []csi.Change) []string {
	all, err := k.stints()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.fail("the volume cannot be read: %v", err)
	}
	for _, s := range all {
		if s.lines > blindAfter && !k.met[s.uid] {
			k.fail("%s wrote %d lines on %s, and the checker saw no process of it", s.uid, s.lines, s.node)
		}
	}
	for i := 1; i < len(all); i++ {
		for _, earlier := range all[:i] {
			if !all[i].first.After(earlier.last) {
				k.fail("two writers at once, for %v: %+v and %+v", earlier.last.Sub(all[i].first), earlier, all[i])
			}
		}
	}
	for _, change := range changes {
		if change.Refused != "" {
			k.fail("storage: %v", change)
		}
	}
	broken := k.broken
	k.broken = nil
	return broken
}

// running returns the processes of the workload in the last check.
func (k *checker) running() []worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.last)
}
