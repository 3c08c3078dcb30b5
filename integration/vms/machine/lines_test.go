package machine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/vms/control"
)

// wired returns a machine whose QEMU and guest are played by the test.
func wired(t *testing.T) (m *Machine, qmp, guest net.Conn) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	m = &Machine{Config: Config{Name: "m"}, done: make(chan struct{}), changed: make(chan struct{}), waiting: map[uint64]chan<- control.Message{}, log: log}
	a, qmp := net.Pipe()
	b, guest := net.Pipe()
	m.qmp, m.ctl = newJSONLine(a), newJSONLine(b)
	m.wg.Go(m.readQMP)
	m.wg.Go(m.readControl)
	t.Cleanup(func() {
		for _, c := range []net.Conn{a, b, qmp, guest} {
			c.Close()
		}
		m.wg.Wait()
		log.Close()
	})
	return m, qmp, guest
}

func say(t *testing.T, c net.Conn, line string) {
	t.Helper()
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		t.Fatal(err)
	}
}

// request reads what the guest is asked to do.
func request(t *testing.T, guest net.Conn) (r control.Request) {
	t.Helper()
	line, err := bufio.NewReader(guest).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// awaitEvent returns the first event of the kind.
func awaitEvent(t *testing.T, m *Machine, kind string) Event {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		events, changed := m.Events()
		for _, e := range events {
			if e.Kind == kind {
				return e
			}
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("no event %q in %v", kind, events)
		}
	}
}

type reply struct {
	text string
	err  error
}

func run(ctx context.Context, m *Machine, script string) <-chan reply {
	got := make(chan reply, 1)
	go func() {
		text, err := m.Run(ctx, script)
		got <- reply{text, err}
	}()
	return got
}

func TestReply(t *testing.T) {
	m, _, guest := wired(t)
	got := run(t.Context(), m, "true")
	r := request(t, guest)
	if r.Op != control.OpExec || len(r.Args) != 1 || r.Args[0] != "true" {
		t.Errorf("asked %+v", r)
	}
	// A reset that came before cut this line short.
	say(t, guest, `{"kind":"repl`)
	say(t, guest, `{"kind":"reply","id":999,"text":"to nobody"}`)
	say(t, guest, `{"kind":"reply","id":1,"text":"out"}`)
	if r := <-got; r.text != "out" || r.err != nil {
		t.Errorf("%+v", r)
	}
	say(t, guest, `{"kind":"log","source":"agent","text":"a line"}`)
	if e := awaitEvent(t, m, control.Log); e.Source != control.SourceAgent || e.Text != "a line" {
		t.Errorf("%+v", e)
	}
}

// TestReset: a reset is dated by the hypervisor, and requests that wait for the guest end.
func TestReset(t *testing.T) {
	m, qmp, guest := wired(t)
	got := run(t.Context(), m, "sleep 1000")
	request(t, guest)
	say(t, qmp, `{"return": {}}`)
	say(t, qmp, `{"timestamp": {"seconds": 1700000000, "microseconds": 250000}, "event": "RESET", "data": {"guest": true}}`)
	e := awaitEvent(t, m, QMP)
	if e.Source != "RESET" || !e.At.Equal(time.Unix(1700000000, 250000000)) {
		t.Errorf("%+v", e)
	}
	if r := <-got; !errors.Is(r.err, errReset) {
		t.Errorf("%+v", r)
	}
}

func TestContextEnds(t *testing.T) {
	m, _, guest := wired(t)
	ctx, cancel := context.WithCancel(t.Context())
	got := run(ctx, m, "sleep 1000")
	request(t, guest)
	cancel()
	if r := <-got; !errors.Is(r.err, context.Canceled) {
		t.Errorf("%+v", r)
	}
}
