package members

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// given is a source that has one list at the start, and no list after it.
type given struct {
	list List
	err  error
}

func (g given) First(context.Context, bool) (List, error) { return g.list, g.err }

func (given) Follow(ctx context.Context, _ <-chan struct{}, _ func(List)) { <-ctx.Done() }

// listing returns a numbered list.
func listing(epoch uint64, names ...string) List {
	l := List{Numbered: true, Epoch: epoch}
	for i, name := range names {
		l.Members = append(l.Members, roster.Member{Name: name, Addresses: map[string]string{"a": netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}).String()}})
	}
	return l
}

// desk holds the lists of node n1, and their log.
func desk(dir string, s Source) (*Members, *strings.Builder) {
	c := config.Default()
	c.NodeName, c.NodeGroup, c.Members.CacheFile = "n1", "g", filepath.Join(dir, "members.json")
	log := new(strings.Builder)
	return New(Config{
		Config: c, Source: s, Logger: slog.New(slog.NewTextHandler(log, nil)), Clock: func() boottime.Instant { return 1 },
		Saved: func(error) {}, Listed: func(List) {}, Fetch: func([]string, int, roster.Ref) {},
	}), log
}

func coreOf(s *roster.Succession, directory *roster.Roster) *watchdog.Core {
	return watchdog.NewCore(watchdog.Config{Roster: directory, Succession: s, Networks: 1, Policy: netgossip.Any(), MaxAge: 4 * time.Second})
}

// begin runs the start of an agent up to the point where other nodes hear of it.
func begin(t *testing.T, m *Members) (*roster.Succession, *roster.Roster, error) {
	t.Helper()
	s, directory, err := m.Begin(t.Context())
	if err == nil {
		err = m.Keep()
	}
	return s, directory, err
}

// Guard: the list that was in force is remembered, whatever list the source has after a restart.
func TestListIsRememberedOverARestart(t *testing.T) {
	dir := t.TempDir()
	m, _ := desk(dir, given{list: listing(0, "n1", "n2")})
	first, _, err := begin(t, m)
	if err != nil {
		t.Fatal(err)
	}
	m, _ = desk(dir, given{})
	again, directory, err := begin(t, m)
	if err != nil {
		t.Fatal(err)
	}
	if again.Base().Ref() != first.Base().Ref() || directory.Size() != 2 || m.Largest() != 2 {
		t.Errorf("%v of %d, want %v", again.Base().Ref(), directory.Size(), first.Base().Ref())
	}
	m, _ = desk(dir, given{})
	m.cache.node = "n2"
	if _, _, err := begin(t, m); err == nil || !strings.Contains(err.Error(), "give each agent its own file") {
		t.Errorf("with another node's file: %v", err)
	}
}

// The stored file of a node that was moved belongs to another group. The error must not advise a separate file, which
// does not help there.
func TestListOfAnotherGroup(t *testing.T) {
	dir := t.TempDir()
	m, _ := desk(dir, given{list: listing(0, "n1", "n2")})
	if _, _, err := begin(t, m); err != nil {
		t.Fatal(err)
	}
	moved := func() error {
		m, _ := desk(dir, given{list: listing(0, "n1", "n3")})
		m.cache.group, m.cache.terms = "moved", "/there/members-terms.json"
		_, _, err := begin(t, m)
		return err
	}
	err := moved()
	if err == nil || strings.Contains(err.Error(), "give each agent its own file") || strings.Contains(err.Error(), forgetHint) {
		t.Fatalf("moved to another group: %v", err)
	}
	for _, part := range []string{`belongs to node "n1" in group "`, `nodeGroup is "moved"`, "if this node was moved", "/there/members-terms.json", m.cache.path} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("lacks %q: %v", part, err)
		}
	}
	if err := os.Remove(m.cache.path); err != nil {
		t.Fatal(err)
	}
	if err := moved(); err != nil {
		t.Errorf("after what the message says was done: %v", err)
	}
}

// A file that cannot be used ends the start. The error says what is wrong and what to do.
func TestListThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(path string, text []byte) error
		want  string
	}{
		"a later format": {func(path string, text []byte) error {
			return os.WriteFile(path, bytes.Replace(text, []byte(`"version": 1`), []byte(`"version": 2, "more": {}`), 1), 0o600)
		}, "format 2, but this version only reads format 1: start the version that has written it"},
		"cut": {func(path string, text []byte) error { return os.WriteFile(path, text[:len(text)/2], 0o600) }, "damaged: unexpected EOF"},
		"a link to itself": {func(path string, _ []byte) error {
			return errors.Join(os.Remove(path), os.Symlink(filepath.Base(path), path))
		}, "too many levels of symbolic links; correct the path"},
		"a folder": {func(path string, _ []byte) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) }, "is not a regular file; correct the path"},
	} {
		dir := t.TempDir()
		m, _ := desk(dir, given{list: listing(0, "n1", "n2")})
		remembers(t, m, listing(0, "n1", "n2"))
		text, err := os.ReadFile(m.cache.path)
		if err == nil {
			err = c.spoil(m.cache.path, text)
		}
		if err != nil {
			t.Fatal(name, err)
		}
		m, _ = desk(dir, given{list: listing(0, "n1", "n2")})
		if _, _, err := begin(t, m); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), forgetHint) {
			t.Errorf("%s: %v, want %q and what to do", name, err, c.want)
		}
	}
}

func TestBeginNeedsAListThatCanBeKept(t *testing.T) {
	m, _ := desk(t.TempDir(), given{err: errors.New("no such list")})
	if _, _, err := begin(t, m); err == nil || !strings.Contains(err.Error(), "no such list") {
		t.Errorf("without a list: %v", err)
	}
	m, _ = desk("/proc/no-such-folder", given{list: listing(0, "n1", "n2")})
	if _, _, err := begin(t, m); err == nil || !strings.Contains(err.Error(), "make the folder writable") {
		t.Errorf("without a folder: %v", err)
	}
}

// Guard: a list that does not fit is refused with the reason, once while it stays the same.
func TestListThatDoesNotFitIsRefusedOnce(t *testing.T) {
	m, log := desk(t.TempDir(), given{list: listing(0, "n1", "n2", "n3")})
	remembers(t, m, listing(0, "n1", "n2", "n3"))
	s, directory, err := begin(t, m)
	if err != nil {
		t.Fatal(err)
	}
	m.cfg.Config.Quorum.Size = 2
	core := coreOf(s, directory)
	for range 3 {
		m.Learn(core, listing(1, "n1", "n2", "n3", "n4"))
	}
	if n := strings.Count(log.String(), "quorum.size 2 does not fit 4 members"); n != 1 {
		t.Errorf("told %d times:\n%s", n, log)
	}
	if core.Step(boottime.Instant(time.Second)); s.Next() != nil {
		t.Errorf("taken up: %v", s.Next().Ref())
	}
	m.Learn(core, listing(1, "n1", "n2"))
	if core.Step(boottime.Instant(2 * time.Second)); s.Next() == nil || s.Next().Size() != 2 {
		t.Errorf("a list that fits is not taken into consideration: %v", s.Next())
	}
}

// A peer that lacks a list is given it if this node uses it, and not if this node only knows it.
func TestHandsOverWhatItGoesBy(t *testing.T) {
	m, _ := desk(t.TempDir(), given{list: listing(0, "n1", "n2")})
	if m.HandsOver(roster.Ref{}) != nil {
		t.Error("hands something over before it has anything")
	}
	remembers(t, m, listing(0, "n1", "n2"))
	s, directory, err := begin(t, m)
	if err != nil {
		t.Fatal(err)
	}
	core := coreOf(s, directory)
	m.Learn(core, listing(1, "n1", "n2", "n3"))
	core.Step(boottime.Instant(time.Second))
	if got := m.HandsOver(s.Base().Ref()); got != s.Base() {
		t.Errorf("hands over %v, want %v", got, s.Base().Ref())
	}
	later := listing(1, "n1", "n2", "n3")
	known, err := later.roster("n1")
	if err != nil {
		t.Fatal(err)
	}
	if got := m.HandsOver(known.Ref()); got != nil {
		t.Errorf("hands over %v, which it only knows", got.Ref())
	}
}

// Of the nodes that have a list, one is asked for it at a time, and each time another one.
func TestHoldersAreAskedInTurn(t *testing.T) {
	m, _ := desk(t.TempDir(), given{list: listing(0, "n1", "n2", "n3")})
	s, directory, err := begin(t, m)
	if err != nil {
		t.Fatal(err)
	}
	var tries []int
	m.cfg.Fetch = func(holders []string, try int, _ roster.Ref) {
		if len(holders) != 2 {
			t.Errorf("holders %v", holders)
		}
		tries = append(tries, try)
	}
	core := coreOf(s, directory)
	want := &watchdog.RosterEffects{Moves: roster.Moves{Fetch: roster.Ref{Epoch: 1, Digest: 1}, Holders: roster.SetOf(1, 2), Rival: -1}}
	for now := range boottime.Instant(50) { // ten steps a second
		m.Follow(boottime.Instant(time.Second)+now*boottime.Instant(100*time.Millisecond), core, directory, want)
	}
	if len(tries) != 3 || tries[2] != 2 {
		t.Errorf("asked %v, want three times in five seconds", tries)
	}
	select {
	case <-m.again:
	default:
		t.Error("the source is not asked again")
	}
}

// remembers puts a list in force for a node that begins.
func remembers(t *testing.T, m *Members, l List) {
	t.Helper()
	r, err := l.roster(m.cfg.Config.NodeName)
	if err == nil {
		err = m.cache.save(&roster.Saved{Chain: []*roster.Roster{r}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A start that is killed while its first list is being stored continues. Before the list is stored, it is a first
// start. After that there is a list in force, whatever the lock says.
func TestFirstStartEndsWithTheStoredList(t *testing.T) {
	m, _ := desk(t.TempDir(), given{list: listing(0, "n1")})
	s, _, err := begin(t, m)
	if err != nil {
		t.Fatal(err)
	}
	first := func() bool { _, first := m.cache.past(); return first }
	saved := &roster.Saved{Chain: s.Chain()}
	path := m.cache.path
	if m.cache.path = filepath.Dir(path); m.cache.save(saved) == nil { // the path is a directory
		t.Fatal("a list was stored over a folder")
	}
	m.cache.path = path
	if !first() {
		t.Error("no list is stored, and the first start is over: the next one waits for ever")
	}
	if err := m.cache.save(saved); err != nil || first() {
		t.Errorf("a list is stored (%v), and the first start goes on: %v", err, first())
	}
	if err := os.WriteFile(m.cache.lock, []byte(firstStart), 0o600); err != nil { // the start was killed between the two
		t.Fatal(err)
	}
	if again, err := m.cache.load(); err != nil || again.Fresh || first() {
		t.Errorf("%+v is remembered (%v), and the first start goes on: %v", again, err, first())
	}
}

// Guard: the removal of a file does not begin a group. Somebody changes the list without another epoch, is told that
// another list has that epoch, and removes the file, which is called a cache. The node then waits for nodes with that
// list. Only the first start of a group of one does not wait.
func TestRemovedMemoryIsNoBeginning(t *testing.T) {
	for name, c := range map[string]struct {
		before, after []string
		claims        bool
	}{
		"alone":             {[]string{"n1", "n2", "n3"}, []string{"n1"}, false},
		"with a new member": {[]string{"n1", "n2", "n3"}, []string{"n1", "n9"}, false},
		"the same list":     {[]string{"n1", "n2", "n3"}, []string{"n1", "n2", "n3"}, false},
		"a first start":     {nil, []string{"n1"}, true},
	} {
		dir := t.TempDir()
		if c.before != nil {
			m, _ := desk(dir, given{})
			remembers(t, m, listing(0, c.before...))
			if err := os.WriteFile(m.cfg.Config.LockFile(), nil, 0o600); err != nil { // as each agent does
				t.Fatal(err)
			}
			if err := os.Remove(m.cache.path); err != nil {
				t.Fatal(err)
			}
		}
		for start := range 2 { // a restart does not change this
			m, log := desk(dir, given{list: listing(0, c.after...)})
			s, directory, err := begin(t, m)
			if err != nil {
				t.Fatal(err)
			}
			if gone := strings.Contains(log.String(), "of its lists of members is gone"); gone != (name == "alone") {
				t.Errorf("%s: the log says that a memory is gone: %v", name, gone)
			}
			core := coreOf(s, directory)
			for at := range 3 {
				if fx := core.Step(boottime.Instant(time.Duration(at+1) * time.Second)); fx.Rosters.Save != nil {
					core.Rosters().Succession().Saved(m.cache.save(fx.Rosters.Save))
				}
			}
			if s.Claims() != c.claims {
				t.Errorf("%s, start %d: claims to be in force: %v", name, start, s.Claims())
			}
		}
	}
}

// A start that ends before the first list is in force forgets nothing: it is killed at any moment, or the LUN is
// refused, and then nothing is kept of the list. A group of one begins at the next start. If others have heard of the
// node, they may count it.
func TestFirstStartThatEnds(t *testing.T) {
	for name, c := range map[string]struct {
		list  []string
		kept  bool // whether Keep was called
		again []string
		waits bool
	}{
		"before its list is kept":           {[]string{"n1"}, false, []string{"n1"}, false},
		"before its list is in force":       {[]string{"n1"}, true, []string{"n1"}, false},
		"after others have heard of it":     {[]string{"n1", "n2"}, true, []string{"n1"}, true},
		"before others have heard of it":    {[]string{"n1", "n2"}, false, []string{"n1"}, false},
		"alone, and others hear of it then": {[]string{"n1"}, true, []string{"n1", "n2"}, true},
	} {
		dir := t.TempDir()
		start := func(list []string, keep bool) *roster.Succession {
			m, _ := desk(dir, given{list: listing(0, list...)})
			s, _, err := m.Begin(t.Context())
			if err == nil {
				_, _, err = statefile.Lock(m.cache.lock) // as the agent does before it opens the LUN
			}
			if err == nil && keep {
				err = m.Keep()
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err := os.Stat(m.cache.path); (err == nil) != keep {
				t.Errorf("%s: a list is stored: %v", name, err == nil)
			}
			return s
		}
		start(c.list, c.kept)
		if m, _ := desk(dir, given{}); !c.kept {
			if saved, err := m.cache.load(); saved != nil || err != nil {
				t.Errorf("%s: %+v is remembered, %v", name, saved, err)
			}
		}
		m, _ := desk(dir, given{list: listing(0, c.again...)})
		if len(c.again) < len(c.list) && c.kept {
			if err := os.Remove(m.cache.path); err != nil { // somebody takes it for a cache
				t.Fatal(err)
			}
		}
		s, directory, err := begin(t, m)
		if err != nil {
			t.Fatal(err)
		}
		core := coreOf(s, directory)
		for at := range 3 {
			if fx := core.Step(boottime.Instant(time.Duration(at+1) * time.Second)); fx.Rosters.Save != nil {
				core.Rosters().Succession().Saved(m.cache.save(fx.Rosters.Save))
			}
		}
		if s.Claims() == c.waits {
			t.Errorf("%s: claims to be in force: %v", name, s.Claims())
		}
	}
}
