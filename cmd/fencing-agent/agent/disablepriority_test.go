package agent

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/api/publish"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
)

// Guard: with an order, the first source that has a setting decides; without one, each source disarms. A source without
// a setting takes nothing back.
func TestWhoseWordAboutMaintenanceCounts(t *testing.T) {
	const file, controller = config.DisableFile, config.DisableNode
	for _, c := range []struct {
		order      []config.DisableSource
		file, node opinion
		want       []config.DisableSource
	}{
		{nil, silent, silent, nil},
		{nil, under, silent, []config.DisableSource{file}},
		{nil, silent, under, []config.DisableSource{controller}},
		{nil, under, under, []config.DisableSource{file, controller}},
		{nil, none, under, []config.DisableSource{controller}},
		{nil, under, none, []config.DisableSource{file}},
		{[]config.DisableSource{file, controller}, silent, silent, nil},
		{[]config.DisableSource{file, controller}, silent, under, []config.DisableSource{controller}},
		{[]config.DisableSource{file, controller}, none, under, nil},
		{[]config.DisableSource{file, controller}, under, none, []config.DisableSource{file}},
		{[]config.DisableSource{file, controller}, silent, none, nil},
		{[]config.DisableSource{controller, file}, under, silent, []config.DisableSource{file}},
		{[]config.DisableSource{controller, file}, under, none, nil},
		{[]config.DisableSource{controller, file}, none, under, []config.DisableSource{controller}},
	} {
		if got := decides(c.order, map[config.DisableSource]opinion{file: c.file, controller: c.node}); !slices.Equal(got, c.want) {
			t.Errorf("%v, file %d, controller %d: %v, want %v", c.order, c.file, c.node, got, c.want)
		}
	}
}

// Guard: when one source takes over from another, the node is not armed in between: each update contains both.
func TestMaintenanceIsTakenOverWithoutAGap(t *testing.T) {
	m := maintenances{order: []config.DisableSource{config.DisableFile, config.DisableNode}}
	var told []string
	tell := func(s map[string]string) { told = append(told, fmt.Sprint(s["file"], "|", s["annotation"], len(s))) }
	m.take(config.DisableNode, under, "annotation a", tell)
	m.take(config.DisableFile, under, "the file f", tell)
	m.take(config.DisableFile, silent, "", tell)
	m.take(config.DisableFile, none, "the file f", tell)
	if want := []string{"|annotation a2", "the file f|2", "|annotation a2", "|2"}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
}

// Guard: the agent never reports that nothing resets this node while an annotation with priority over the file says
// off. While the API server is away, its last known state counts.
func TestNoMaintenanceIsPromisedThatIsOutweighed(t *testing.T) {
	for _, c := range []struct {
		order   []config.DisableSource
		node    opinion
		refused bool
	}{
		{nil, none, false}, {nil, silent, false},
		{[]config.DisableSource{config.DisableNode, config.DisableFile}, none, true},
		{[]config.DisableSource{config.DisableNode, config.DisableFile}, silent, false},
		{[]config.DisableSource{config.DisableNode, config.DisableFile}, under, false},
		{[]config.DisableSource{config.DisableFile, config.DisableNode}, none, false},
	} {
		a := &Agent{}
		a.guard.maintenances.order = c.order
		a.guard.disable = &disableFile{path: filepath.Join(t.TempDir(), "f"), log: slog.New(slog.DiscardHandler), clock: func() boottime.Instant { return 0 }, remove: os.Remove}
		a.guard.maintenances.take(config.DisableNode, c.node, "annotation a", func(map[string]string) {})
		_, err := a.maintain(t.Context(), publish.Maintenance{For: time.Hour, By: "ops", Reason: "HBA"})
		_, missing := os.Stat(a.guard.disable.path)
		if refused := err != nil; refused != c.refused || refused != (missing != nil) || refused && !strings.Contains(err.Error(), "annotation a said off") {
			t.Errorf("%v, the Node says %d: %v", c.order, c.node, err)
		}
		if _, err := a.maintain(t.Context(), publish.Maintenance{By: "ops"}); err != nil {
			t.Errorf("%v, the Node says %d: it cannot be ended: %v", c.order, c.node, err)
		}
	}
}

// A file that says off ends a maintenance if the sources have an order, and starts one if they have none.
func TestDisableFileThatSaysOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f := &disableFile{text: statefile.Read, path: path, log: slog.New(slog.DiscardHandler), clock: func() boottime.Instant { return 0 }, ordered: true}
	for _, c := range []struct {
		text    string
		ordered bool
		changed bool
		want    opinion
	}{{"", true, true, under}, {"off\n", true, true, none}, {"off", false, false, under}, {"of", true, true, under}, {"off", true, true, none}} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		f.ordered = c.ordered
		if changed := f.look(); changed != c.changed || f.says() != c.want {
			t.Errorf("%q: changed %v, it says %d", c.text, changed, f.says())
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if !f.look() || f.says() != silent {
		t.Error("it is gone, and says something")
	}
}

// A file that cannot be examined takes nothing back, neither a yes nor a no. It is reported once, not every second.
func TestWhatCannotBeLookedAtIsToldOnce(t *testing.T) {
	var log bytes.Buffer
	dir := filepath.Join(t.TempDir(), "d")
	f := &disableFile{text: statefile.Read, path: filepath.Join(dir, "f"), log: slog.New(slog.NewTextHandler(&log, nil)), clock: func() boottime.Instant { return 0 }, ordered: true}
	for _, c := range []struct {
		text string
		want opinion
	}{{"", under}, {"off", none}} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f.path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if !f.look() || f.says() != c.want {
			t.Fatalf("%q: it says %d", c.text, f.says())
		}
		if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil { // its directory is now a file
			t.Fatal(err)
		}
		log.Reset()
		for range 5 {
			if f.look() || f.says() != c.want {
				t.Errorf("%q: it cannot be looked at, and says %d", c.text, f.says())
			}
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 1 {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		if !f.look() || f.says() != silent {
			t.Errorf("it is gone, and says %d", f.says())
		}
	}
}

// Guard: an "off" that cannot be read again stays in force. A file that could never be read means maintenance.
func TestOffThatCannotBeRead(t *testing.T) {
	var log bytes.Buffer
	f := &disableFile{path: filepath.Join(t.TempDir(), "f"), log: slog.New(slog.NewTextHandler(&log, nil)), clock: func() boottime.Instant { return 0 }, ordered: true}
	unreadable := func(string) ([]byte, error) { return nil, errors.New("input/output error") }
	if err := os.WriteFile(f.path, []byte("off\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f.text = unreadable; !f.look() || f.says() != under {
		t.Errorf("never read: it says %d", f.says())
	}
	if f.text = statefile.Read; !f.look() || f.says() != none {
		t.Errorf("read: it says %d", f.says())
	}
	log.Reset()
	f.text = unreadable
	for range 3 {
		if f.look() || f.says() != none {
			t.Errorf("not read again: it says %d", f.says())
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
	if _, err := f.set(publish.Maintenance{}); err == nil {
		t.Error("it is removed while it cannot be read")
	}
}

// Guard: fencectl maintenance does not change a file that says off if the file keeps annotations from disarming the
// watchdog.
func TestOffIsNotRemoved(t *testing.T) {
	f := &disableFile{path: filepath.Join(t.TempDir(), "f"), log: slog.New(slog.DiscardHandler), clock: func() boottime.Instant { return 0 }, text: statefile.Read, remove: os.Remove, ordered: true}
	if err := os.WriteFile(f.path, []byte("off\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, m := range []publish.Maintenance{{}, {For: time.Hour, By: "alice", Reason: "work"}} {
		if _, err := f.set(m); err == nil || !strings.Contains(err.Error(), "remove the file by hand") {
			t.Errorf("%v: error %v", m, err)
		}
		if text, err := os.ReadFile(f.path); err != nil || string(text) != "off\n" {
			t.Errorf("%v: the file is %q, %v", m, text, err)
		}
	}
	f.ordered = false // without the order it is like any file that was made by hand
	if _, err := f.set(publish.Maintenance{}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}
