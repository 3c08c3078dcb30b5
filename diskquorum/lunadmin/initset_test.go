package lunadmin

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

// TestInitSet: agents accept the formatted devices as one LUN, in any order.
func TestInitSet(t *testing.T) {
	paths := []string{diskquorumtest.File(t, mib), diskquorumtest.File(t, mib), diskquorumtest.File(t, mib)}
	results, err := InitSet(t.Context(), options(""), paths)
	if err != nil {
		t.Fatal(err)
	}
	var sbs []*diskquorum.Superblock
	for d, r := range results {
		if r.Path != paths[d] || r.Superblock.Device != d {
			t.Errorf("result %d: %+v", d, r)
		}
		checkFormatted(t, r, contents(t, paths[d]))
		sbs = append(sbs, &r.Superblock)
	}
	if err := diskquorum.CheckSet([]*diskquorum.Superblock{sbs[2], sbs[0], sbs[1]}); err != nil {
		t.Error(err)
	}
	if err := diskquorum.CheckSet(sbs[:1]); err == nil {
		t.Error("one device of a set passes as a LUN of its own")
	}
	for d, path := range paths {
		want := SetPlace{ID: fmt.Sprintf("%x", sbs[0].SetID), Device: d + 1, Devices: 3}
		var seen *Report
		err := Inspect(t.Context(), path, InspectOptions{Count: 1}, func(r *Report) error { seen = r; return nil })
		if err != nil || seen.Superblock.Set == nil || *seen.Superblock.Set != want {
			t.Errorf("inspect %d: %+v, %v; want %v", d, seen, err, want)
		}
		checked, err := Check(t.Context(), path, CheckOptions{Count: 1, ReadOnly: d == 0})
		if err != nil || checked.Set == nil || *checked.Set != want {
			t.Errorf("check %d: %+v, %v; want %v", d, checked, err, want)
		}
	}
	if sbs[0].ID == sbs[1].ID || sbs[1].ID == sbs[2].ID || sbs[0].ID == sbs[2].ID {
		t.Error("two devices have one id: a block of one verifies on the other")
	}
}

// TestInitSetAllOrNone: if one device is refused, the others are not changed.
func TestInitSetAllOrNone(t *testing.T) {
	blank := func() string { return diskquorumtest.File(t, mib) }
	full := blank()
	if err := os.WriteFile(full, bytes.Repeat([]byte("data"), mib/4), 0o600); err != nil {
		t.Fatal(err)
	}
	a, b := blank(), blank()
	link := filepath.Join(filepath.Dir(a), "link")
	if err := os.Symlink(a, link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		paths []string
		want  string
	}{
		"last carries data": {[]string{a, b, full}, "data of an unknown format"},
		"last is missing":   {[]string{a, b, a + ".none"}, "no such file"},
		"given twice":       {[]string{a, b, a}, "is given twice"},
		"two names":         {[]string{a, b, link}, "is the same storage as " + a},
		"two devices":       {[]string{a, b}, "2 devices are not a set"},
	} {
		if _, err := InitSet(t.Context(), options(""), c.paths); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		for _, path := range []string{a, b} {
			if firstNonZero(contents(t, path)) >= 0 {
				t.Fatalf("%s: %s was written", name, path)
			}
		}
	}
}

// TestInitSetIsNotOneStorage: if two devices of a set are the same storage, both are lost together, and the later
// format overwrites the earlier one. If the names show this, init refuses before it writes; otherwise when it reads all
// devices back.
func TestInitSetIsNotOneStorage(t *testing.T) {
	file, other := diskquorumtest.File(t, mib), diskquorumtest.File(t, mib)
	loop, twin := diskquorumtest.LoopDevice(t, file, 512), diskquorumtest.LoopDevice(t, file, 512)
	for _, paths := range [][]string{{loop, other, file}, {file, loop, other}} {
		if _, err := InitSet(t.Context(), options(""), paths); err == nil || !strings.Contains(err.Error(), "is the same storage as "+paths[0]) {
			t.Errorf("a loop device and its file: %v", err)
		}
		if firstNonZero(contents(t, file)) >= 0 || firstNonZero(contents(t, other)) >= 0 {
			t.Fatal("it was written")
		}
	}
	if _, err := InitSet(t.Context(), options(""), []string{loop, other, twin}); err == nil || !strings.Contains(err.Error(), "init "+loop+": another device of the set is the same storage") {
		t.Errorf("two loop devices of one file: %v", err)
	}
	paths := []string{"/dev/sda", "/dev/sdb", "/dev/sdc"}
	if err := distinctNames(paths, []string{"naa.1", "", "naa.1"}); err == nil || !strings.Contains(err.Error(), "/dev/sdc: is the same storage as /dev/sda") {
		t.Errorf("two paths to one LUN: %v", err)
	}
	if err := distinctNames(paths, []string{"", "naa.1", ""}); err != nil {
		t.Error(err)
	}
}

// TestInitSetCreates: a failed init removes the files that it created, and no others.
func TestInitSetCreates(t *testing.T) {
	dir := diskquorumtest.DirectDir(t)
	o := options("")
	o.Create = true
	a, b, there := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "there")
	if err := os.WriteFile(there, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := InitSet(t.Context(), o, []string{a, b, there}); err == nil || !strings.Contains(err.Error(), "it exists already") {
		t.Error(err)
	}
	for path, want := range map[string]bool{a: false, b: false, there: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := InitSet(t.Context(), o, []string{a, b, filepath.Join(dir, "c")}); err != nil {
		t.Error(err)
	}
}
