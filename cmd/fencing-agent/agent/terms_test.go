package agent

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// termsRig is the part of an agent that follows its terms. Its disk is the channel of writes: pending reads a write
// from it, and done stores it.
type termsRig struct {
	t *testing.T
	a *Agent
}

// newTermsRig starts an agent in a directory. Its tie-breaker is a LUN.
func newTermsRig(t *testing.T, dir string) *termsRig {
	t.Helper()
	cfg := config.Default()
	cfg.Cluster, cfg.NodeGroup, cfg.NodeName = "main", "worker", "n1"
	cfg.LUN.Devices, cfg.Quorum.TieBreak = []string{"/dev/a"}, config.TieBreakLUN
	cfg.Members.CacheFile = filepath.Join(dir, "members.json")
	members := listing(t, "n1", "n2")
	r := &termsRig{t, &Agent{
		cfg: cfg, roster: members, log: slog.New(slog.NewTextHandler(io.Discard, nil)), clock: func() boottime.Instant { return boottime.Instant(time.Hour) },
		box: newMailbox(1, numbered(2)), core: watchdog.NewCore(watchdog.Config{Roster: members, Networks: 1, Policy: netgossip.Any(), MaxAge: 4 * time.Second, LUN: true}),
	}}
	if err := r.a.beginTerms(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *termsRig) open(id byte, storage string) {
	sb := superblock()
	sb.ID = [16]byte{id}
	r.a.lunNamed(diskquorum.LogID([]*diskquorum.Superblock{sb}), sb, storage)
	r.a.followTerms(r.a.clock(), nil)
}

// done ends the pending write, if there is one; err nil: the write succeeded.
func (r *termsRig) done(err error) bool {
	r.t.Helper()
	select {
	case k := <-r.a.terms.saves:
		if err == nil {
			err = r.a.terms.file.save(k)
		}
		r.a.followTerms(r.a.clock(), []termsSaved{{k, err}})
		return true
	default:
		return false
	}
}

func (r *termsRig) settled() bool { return r.a.core.Terms().Settled() }

// hears makes the core accept a peer's confirmation (a word).
func (r *termsRig) hears() {
	r.a.core.SetTerms(r.a.clock(), r.a.core.Terms(), roster.SetOf(1))
	r.a.followTerms(r.a.clock(), nil)
}

// Guard: T3. An agent neither reports nor uses a LUN before its file names it. The confirmations (words) that it had
// survive a restart with the same LUN. With another LUN or with a clone they are lost for good.
func TestTermsAreOnFileFirst(t *testing.T) {
	dir := t.TempDir()
	r := newTermsRig(t, dir)
	if r.settled() {
		t.Fatal("settled before the LUN was opened")
	}
	r.open(7, "naa.1")
	if r.settled() {
		t.Fatal("settled before the LUN is on file")
	}
	if !r.done(errors.New("disk full")) || r.settled() {
		t.Fatal("settled although the LUN could not be put on file")
	}
	if !r.done(nil) || !r.settled() || r.a.core.Agreed() {
		t.Fatal("not settled, or already agreed, when the LUN is on file")
	}
	r.hears()
	if !r.done(nil) || !r.a.core.Agreed() {
		t.Fatal("whose word was heard is not put on file")
	}

	r = newTermsRig(t, dir)
	if !r.settled() || !r.a.core.Agreed() {
		t.Fatal("the same LUN, and what is on file does not count")
	}
	r.open(7, "naa.1")
	if r.done(nil) || !r.a.core.Agreed() {
		t.Fatal("the LUN that was remembered is not gone by on")
	}

	r = newTermsRig(t, dir)
	r.open(7, "naa.2")
	if r.settled() || r.a.core.Agreed() {
		t.Fatal("a clone of the LUN is gone by as the LUN")
	}
	if !r.done(nil) || !r.settled() || r.a.core.Agreed() {
		t.Fatal("the clone is not gone by without words")
	}

	r = newTermsRig(t, dir)
	r.open(7, "naa.1")
	if r.done(nil); r.a.core.Agreed() {
		t.Fatal("the words from before the clone are back")
	}
	r.hears()
	r.done(nil)
	r = newTermsRig(t, dir)
	r.open(8, "naa.8")
	r.done(nil)
	r = newTermsRig(t, dir)
	r.open(7, "naa.1")
	if r.done(nil); r.a.core.Agreed() {
		t.Fatal("the words from before the other LUN are back")
	}
}

// A pending write with the earlier confirmations must not bring them back.
func TestOldWriteDoesNotBringWordsBack(t *testing.T) {
	r := newTermsRig(t, t.TempDir())
	r.open(7, "naa.1")
	r.done(nil)
	r.hears() // pending
	r.open(7, "naa.2")
	r.done(nil)
	if r.settled() || r.a.core.Agreed() {
		t.Fatal("the words of before are gone by")
	}
	if !r.done(nil) || !r.settled() || r.a.core.Agreed() {
		t.Fatal("the device that replaced the other is not gone by")
	}
}

// An agent that finds the file of another agent does not start. The error names the file and what to do.
func TestTermsFileOfAnotherAgent(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"another node", `{"version": 1, "cluster": "main", "nodeGroup": "worker", "node": "n2"}`, `the file belongs to node "n2"`},
		{"another group", `{"version": 1, "cluster": "main", "nodeGroup": "other", "node": "n1"}`, `in group "other", and nodeGroup is "worker": correct nodeGroup if the node was not moved; to start without them, remove the file`},
	} {
		r := newTermsRig(t, t.TempDir())
		if err := os.WriteFile(r.a.terms.file.path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.a.beginTerms(); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "-terms.json") {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	r := newTermsRig(t, t.TempDir())
	r.a.cfg.Members.CacheFile = filepath.Join(r.a.terms.file.path, "members.json") // a file where a directory should be
	if err := r.a.beginTerms(); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a folder that cannot be: %v", err)
	}
}

// Guard: an agent whose file cannot be read starts and reports this. It counts no peer's confirmation of its terms
// until it hears that peer again (T3).
func TestTermsFileThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(text []byte) []byte
		want  string
	}{
		"damaged":          {func(b []byte) []byte { return b[:len(b)/2] }, "unexpected end of JSON"},
		"empty":            {func([]byte) []byte { return nil }, "unexpected end of JSON"},
		"zeros":            {func(b []byte) []byte { return make([]byte, len(b)) }, "invalid character"},
		"two files in one": {func(b []byte) []byte { return append(b, b...) }, "invalid character"},
		"a later format": {func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"version": 1`), []byte(`"version": 2, "x": 1`), 1)
		}, "format 2, but this version only reads format 1"},
		"unknown field": {func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"version": 1`), []byte(`"version": 1, "x": 1`), 1)
		}, "unknown field"},
		"a number of no log": {func(b []byte) []byte { return bytes.Replace(b, []byte(`"log": "`), []byte(`"log": "x`), 1) }, "log: "},
	} {
		r := newTermsRig(t, t.TempDir())
		r.open(7, "naa.1")
		r.done(nil)
		r.hears()
		r.done(nil)
		text, err := os.ReadFile(r.a.terms.file.path)
		if err != nil || len(r.a.terms.onFile.heard) != 1 {
			t.Fatal(err, r.a.terms.onFile)
		}
		if err := os.WriteFile(r.a.terms.file.path, c.spoil(text), 0o600); err != nil {
			t.Fatal(err)
		}
		log := new(bytes.Buffer)
		r.a.log = slog.New(slog.NewTextHandler(log, nil))
		if err := r.a.beginTerms(); err != nil || r.settled() || r.a.core.Agreed() || len(r.a.terms.onFile.heard) > 0 {
			t.Errorf("%s: %v, settled %v, heard %v", name, err, r.settled(), r.a.terms.onFile.heard)
		}
		if known, err := r.a.terms.file.load(); err != nil || !known.equal(&r.a.terms.onFile) {
			t.Errorf("%s: what is on file now: %v", name, err)
		}
		if !strings.Contains(log.String(), "starting without the tie-break settings of the last run") || !strings.Contains(log.String(), c.want) {
			t.Errorf("%s: %s", name, log)
		}
	}
}

// Guard: an agent whose terms are on file starts even if nothing can be written. Without the file it does not (T3).
func TestTermsOnAFullDisk(t *testing.T) {
	r := newTermsRig(t, t.TempDir())
	r.open(7, "naa.1")
	r.done(nil)
	text, err := os.ReadFile(r.a.terms.file.path)
	if err != nil {
		t.Fatal(err)
	}
	// The name cannot be made longer, so the temporary file that would replace this one cannot be written.
	r.a.cfg.Members.CacheFile = filepath.Join(t.TempDir(), strings.Repeat("m", 237)+".json")
	if err := os.WriteFile(r.a.cfg.TermsFile(), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.a.beginTerms(); err != nil || !r.settled() {
		t.Errorf("the terms are on file: %v", err)
	}
	other := bytes.Replace(text, []byte(`"by": `), []byte(`"by": 1`), 1) // a larger number
	if err := os.WriteFile(r.a.cfg.TermsFile(), other, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.a.beginTerms(); err == nil {
		t.Error("it starts with other terms than those on file")
	}
	if err := os.Remove(r.a.cfg.TermsFile()); err != nil {
		t.Fatal(err)
	}
	if err := r.a.beginTerms(); err == nil {
		t.Error("it starts with terms that it will not remember")
	}
}
