package page

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/api/view"
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

// Guard: a page is only for this machine, under a name of the loopback, unless the configuration opens it to other
// machines.
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
			Model:  func() *Model { return &Model{Title: "<b>"} },
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
			if path == "/" && c.want == 200 && !strings.Contains(w.Body.String(), "<title>&lt;b&gt;</title>") {
				t.Errorf("%q", w.Body)
			}
		}
	}
}

// Guard: no text from a node becomes markup, wherever a page shows it.
func TestTextIsEscaped(t *testing.T) {
	h := &HTML{}
	h.Put(`<i class="{}" title="{}">{}</i>`, view.Bad, `a" onload='x`, "<script>&+\x00")
	h.Chips([]view.Chip{{Name: "<n>", Text: `"`, Marks: "●", Style: view.Good}})
	want := `<i class="bad" title="a&#34; onload=&#39;x">&lt;script&gt;&amp;&#43;` + "\uFFFD</i>" +
		`<ul class="chips"><li class="good" title="&lt;n&gt;: &#34;"><i>●</i> &lt;n&gt;</li>` + "\n</ul>\n"
	if h.String() != want {
		t.Errorf("%s\nwant\n%s", h, want)
	}
	for _, texts := range [][]any{{}, {"1"}, {"1", "2", "3"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d texts for two places", len(texts))
				}
			}()
			h.Put("{}{}", texts...)
		}()
	}
}
