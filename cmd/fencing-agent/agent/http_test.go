package agent

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/picture"
)

func TestListenErrorsSayWhatToDo(t *testing.T) {
	wrapped := func(errno syscall.Errno) error {
		return &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", errno)}
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{wrapped(syscall.EADDRINUSE), "address already in use: another agent or program on this host?"},
		{wrapped(syscall.EADDRNOTAVAIL), "this node does not have that address"},
		{wrapped(syscall.EACCES), "permission denied: ports below 1024"},
		{wrapped(syscall.EMFILE), "too many open files"},
		{errors.New("lookup nowhere: no such host"), "lookup nowhere: no such host"},
	} {
		if got := explainListen(tt.err).Error(); !strings.HasPrefix(got, tt.want) && !strings.Contains(got, ": "+tt.want) {
			t.Errorf("%v: %s, want %q", tt.err, got, tt.want)
		}
	}
}

func TestHealthFollowsTheLoop(t *testing.T) {
	now := boottime.Instant(1)
	a := &Agent{clock: func() boottime.Instant { return now }}
	a.life.alive.Store(int64(now))
	ask := func(h http.HandlerFunc) (int, string) {
		w := httptest.NewRecorder()
		h(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Code, w.Body.String()
	}
	if code, body := ask(a.healthz); code != http.StatusOK || body != "ok\n" {
		t.Errorf("healthy: %d %q", code, body)
	}
	now = now.Add(loopDead)
	if code, _ := ask(a.healthz); code != http.StatusOK {
		t.Errorf("at the limit: %d", code)
	}
	now++
	if code, body := ask(a.healthz); code != http.StatusServiceUnavailable || !strings.Contains(body, "has not run for 5s") {
		t.Errorf("hanging: %d %q", code, body)
	}
	if code, body := ask(a.readyz); code != http.StatusServiceUnavailable || body != "no quorum\n" {
		t.Errorf("without quorum: %d %q", code, body)
	}
	f := new(picture.Facts)
	f.Verdict.Decision.Quorum = true
	a.published.facts.Store(f)
	if code, _ := ask(a.readyz); code != http.StatusOK {
		t.Errorf("with quorum: %d", code)
	}
}

func TestDebugIsForTheLoopback(t *testing.T) {
	h := onLoopback(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	for from, want := range map[string]int{
		"127.0.0.1:40000": http.StatusOK, "[::1]:40000": http.StatusOK, "[::ffff:127.0.0.1]:40000": http.StatusOK,
		"10.0.0.1:40000": http.StatusForbidden, "[fd00::1]:40000": http.StatusForbidden, "": http.StatusForbidden, "localhost:1": http.StatusForbidden,
	} {
		r, w := httptest.NewRequest(http.MethodGet, "/debug/state", nil), httptest.NewRecorder()
		r.RemoteAddr, r.Host = from, "localhost:9110"
		if h(w, r); w.Code != want {
			t.Errorf("from %q: %d, want %d", from, w.Code, want)
		}
	}
	r, w := httptest.NewRequest(http.MethodGet, "/debug/state", nil), httptest.NewRecorder()
	r.RemoteAddr, r.Host = "127.0.0.1:40000", "evil.example:9110" // a page in a browser on this machine, whose name now resolves to the loopback
	if h(w, r); w.Code != http.StatusForbidden {
		t.Errorf("by a foreign name: %d", w.Code)
	}
}
