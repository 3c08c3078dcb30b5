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

// TestInitSet: what it leaves is what the agents take for one LUN, in any order.
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
		seen, err := InspectPath(t.Context(), path, InspectOptions{})
		if err != nil || seen.Superblock.Set == nil || *seen.Superblock.Set != want {
			t.Errorf("inspect %d: %+v, %v; want %v", d, seen, err, want)
		}
		checked, err := CheckPath(t.Context(), path, 1, d == 0, nil)
		if err != nil || checked.Set == nil || *checked.Set != want {
			t.Errorf("check %d: %+v, %v; want %v", d, checked, err, want)
		}
	}
	if sbs[0].ID == sbs[1].ID || sbs[1].ID == sbs[2].ID || sbs[0].ID == sbs[2].ID {
		t.Error("two devices have one id: a block of one verifies on the other")
	}
}

// TestInitSetAllOrNone: one device that is refused leaves the others as they are.
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
		"two names":         {[]string{a, b, link}, "is the same device as " + a},
		"two devices":       {[]string{a, b}, "2 devices are no set"},
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

// TestInitSetCreates removes the files it made when it fails, and no others.
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
