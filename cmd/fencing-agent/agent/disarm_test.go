package agent

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// A source unknown to the agent disarms, and the verdict names it: to add a source, it is enough to put its reason into
// the mailbox.
func TestNewDisarmSource(t *testing.T) {
	members := listing(t, "n1")
	now := boottime.Instant(10 * time.Second)
	a := &Agent{
		cfg: config.Default(), roster: members, log: slog.New(slog.DiscardHandler), clock: func() boottime.Instant { return now },
		core: watchdog.NewCore(watchdog.Config{Roster: members, Networks: 1, Policy: netgossip.Any(), MaxAge: 4 * time.Second}),
	}
	say := func(signals map[string]string) *fencingv1.Verdict {
		t.Helper()
		b := newBatch(1, 1)
		b.disarm = signals
		if err := a.handle(&b); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
		v := a.verdict(a.core.Step(now).Decision)
		return v.Message()
	}
	v := say(map[string]string{"drill": "a fire drill on floor 3", "file": "the file /run/disable"})
	if v.GetReason() != fencingv1.Reason_REASON_MAINTENANCE || !slices.Equal(v.GetDisarmedBy(), []string{"a fire drill on floor 3", "the file /run/disable"}) {
		t.Errorf("got %v", v)
	}
	if v := say(map[string]string{"drill": ""}); !slices.Equal(v.GetDisarmedBy(), []string{"the file /run/disable"}) {
		t.Errorf("after the drill: %v", v)
	}
	if v := say(map[string]string{"file": ""}); v.GetReason() == fencingv1.Reason_REASON_MAINTENANCE || len(v.GetDisarmedBy()) > 0 {
		t.Errorf("after all: %v", v)
	}
}

// If a Node no longer has a signal, the signal is taken back.
func TestNodeSignalsLowerWhatTheyRaised(t *testing.T) {
	n := &nodeSignals{a: &Agent{}, teller: "the API server"}
	var raised, after map[string]string
	n.tell(ownnode.Signals{Maintenance: "example.com/off", Removal: "the Node is being deleted", Unknown: true}, func(s map[string]string) { raised = s })
	n.tell(ownnode.Signals{}, func(s map[string]string) { after = s })
	delete(raised, "file") // it belongs to another source
	delete(after, "file")
	for source, why := range after {
		if why != "" || raised[source] == "" {
			t.Errorf("%s: %q, after %q", source, why, raised[source])
		}
		delete(raised, source)
	}
	if len(raised) > 0 {
		t.Errorf("never lowered: %v", raised)
	}
}

// Guard: a file that cannot be read neither disarms nor arms.
func TestDisableFileThatCannotBeLookedAt(t *testing.T) {
	var log bytes.Buffer
	dir := t.TempDir()
	f := &disableFile{text: statefile.Read, path: filepath.Join(dir, "off"), log: slog.New(slog.NewTextHandler(&log, nil)), clock: func() boottime.Instant { return 0 }}
	if f.look() || f.why != "" {
		t.Error("there without having been made")
	}
	if err := os.WriteFile(f.path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !f.look() || f.look() || f.why != "the file "+f.path {
		t.Errorf("it is there: %q", f.why)
	}
	there := f.path
	f.path = strings.Repeat("x", 5000) // too long for the name of a file
	if f.look() || f.why == "" || !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("the last answer does not stand: %q\n%s", f.why, &log)
	}
	f.path = there
	if err := os.Remove(there); err != nil {
		t.Fatal(err)
	}
	if !f.look() || f.why != "" {
		t.Errorf("it is gone: %q", f.why)
	}
}
