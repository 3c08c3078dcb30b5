package page

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestNotTooManyPages(t *testing.T) {
	p := &page{open: make(chan struct{}, 1), Config: Config{Follow: func(context.Context, func(*Model) error) error { return fmt.Errorf("ended") }}}
	ask := func() int {
		w := httptest.NewRecorder()
		p.live(w, httptest.NewRequest(http.MethodGet, "/live", nil))
		return w.Code
	}
	p.open <- struct{}{}
	if got := ask(); got != http.StatusServiceUnavailable {
		t.Errorf("one too many: %d", got)
	}
	<-p.open
	if got := ask(); got != 200 || len(p.open) != 0 {
		t.Errorf("%d, %d are left", got, len(p.open))
	}
}

// Guard: a page is for this machine, under a name of the loopback, unless it is said to be for anybody.
func TestWhoMaySeeIt(t *testing.T) {
	for _, c := range []struct {
		remote, host string
		anybody      bool
		want         int
	}{
		{"127.0.0.1:5", "127.0.0.1:9110", false, 200},
		{"[::1]:5", "localhost", false, 200},
		{"127.0.0.1:5", "evil.example:9110", false, 403},
		{"10.0.0.9:5", "127.0.0.1:9110", false, 403},
		{"10.0.0.9:5", "10.0.0.1:9110", true, 200},
		{"", "", false, 403},
	} {
		mux := http.NewServeMux()
		Register(mux, Config{
			Whole: template.Must(template.New("x").Parse("{{.}}")), Model: func() *Model { return &Model{Data: "<b>"} },
			Ticket: func() string { return "all" }, Anybody: c.anybody, Refusal: "no",
		})
		for _, path := range []string{"/", "/ticket", "/page.js", "/page.css"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.RemoteAddr, r.Host = c.remote, c.host
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("%s from %s as %s: %d, want %d", path, c.remote, c.host, w.Code, c.want)
			}
			if path == "/" && c.want == 200 && w.Body.String() != "&lt;b&gt;" {
				t.Errorf("%q", w.Body)
			}
		}
	}
}
