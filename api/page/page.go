package page

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/api/view"
)

const (
	writeLimit = 10 * time.Second // a client that takes longer is gone
	mostPages  = 8                // that are kept up to date at once
)

var (
	//go:embed page.css
	css string
	//go:embed page.js
	script string
)

// Model is what a page shows at one moment: the data of its template, and when that was, as the template shows it at id "at".
type Model struct {
	Data any
	At   string
}

// Config is a page.
type Config struct {
	Whole    *template.Template // executed with a model: the whole page
	Sections []string           // templates of Whole; each is the content of the element with that id
	// Model is nil as long as there is nothing to show, and Starting says so.
	Model    func() *Model
	Starting string
	// Follow calls send with what is to be shown, again and again until its context ends or send fails: after each change, and
	// at least every five seconds.
	Follow func(ctx context.Context, send func(*Model) error) error
	Ticket func() string // all of it as text; empty: nothing to show yet
	// Anybody: not only clients on this node, or what is forwarded to it. The others are told Refusal.
	Anybody bool
	Refusal string
}

type page struct {
	Config
	open chan struct{} // capacity mostPages
}

// Funcs are what templates of pages may call.
func Funcs() template.FuncMap {
	return template.FuncMap{"class": class, "mark": view.Mark, "zero": func(s view.Span) bool { return s.Text == "" }}
}

// Register serves the page on a mux.
func Register(mux *http.ServeMux, c Config) {
	p := &page{Config: c, open: make(chan struct{}, mostPages)}
	mux.Handle("GET /{$}", p.guard(p.html))
	mux.Handle("GET /ticket", p.guard(p.ticket))
	mux.Handle("GET /live", p.guard(p.live))
	mux.Handle("GET /page.css", p.guard(asset(css, "text/css; charset=utf-8")))
	mux.Handle("GET /page.js", p.guard(asset(script, "text/javascript; charset=utf-8")))
}

func class(s view.Style) string { return [...]string{"plain", "good", "warn", "bad"}[s&3] }

func asset(text, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write([]byte(text)) // the client went away
	}
}

// policy lets the page load its own files and nothing else, and nobody frame it.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// FromHere reports whether a request comes from this node, and from nobody else's page. That the client is on this node is not
// enough: a browser there may be told by a foreign page, whose name then leads to the loopback, to ask; so the name that is asked
// for counts, too.
func FromHere(r *http.Request) bool { return loopback(r.RemoteAddr) && local(r.Host) }

// guard answers those who may see the page.
func (p *page) guard(serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		if !p.Anybody && !FromHere(r) {
			http.Error(w, p.Refusal, http.StatusForbidden)
			return
		}
		serve(w, r)
	})
}

func loopback(remote string) bool {
	a, err := netip.ParseAddrPort(remote)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// local reports whether a Host header names this node to itself.
func local(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

func (p *page) html(w http.ResponseWriter, _ *http.Request) {
	m := p.Model()
	if m == nil {
		http.Error(w, p.Starting, http.StatusServiceUnavailable)
		return
	}
	var b bytes.Buffer
	if err := p.Whole.Execute(&b, m.Data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // the client went away
}

func (p *page) ticket(w http.ResponseWriter, _ *http.Request) {
	text := p.Ticket()
	if text == "" {
		http.Error(w, p.Starting, http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // the client went away
}

// live sends the sections that have changed, for as long as the client takes them.
func (p *page) live(w http.ResponseWriter, r *http.Request) {
	select {
	case p.open <- struct{}{}:
		defer func() { <-p.open }()
	default:
		http.Error(w, fmt.Sprintf("%d pages are open already", mostPages), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	sent := map[string]string{}
	err := p.Follow(r.Context(), func(m *Model) error {
		text, err := p.update(m, sent)
		if err != nil {
			return err
		}
		if err := out.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", text); err != nil {
			return err
		}
		return out.Flush()
	})
	_ = err // the client has gone, or the program stops: the script tries again and says so
}

// update is the JSON of what differs from what was sent.
func (p *page) update(m *Model, sent map[string]string) ([]byte, error) {
	news := map[string]string{"at": m.At}
	for _, name := range p.Sections {
		var b bytes.Buffer
		if err := p.Whole.ExecuteTemplate(&b, name, m.Data); err != nil {
			return nil, err
		}
		if html := b.String(); html != sent[name] {
			news[name], sent[name] = html, html
		}
	}
	return json.Marshal(news)
}
