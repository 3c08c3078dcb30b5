package page

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

const (
	writeLimit = 10 * time.Second // a client that takes longer is gone
	mostPages  = 8                // pages that are kept up to date at once
)

var (
	//go:embed page.css
	css string
	//go:embed page.js
	script string
)

// Model is what a page shows at one moment, and the time of that moment as text.
type Model struct {
	Title, At string
	Sections  []Section // in the order of the page
}

// Section is the content of the element with that id.
type Section struct {
	ID string
	HTML
}

// Section begins the next section. What it returns is valid until the next call begins.
func (m *Model) Section(id string) *HTML {
	m.Sections = append(m.Sections, Section{ID: id})
	return &m.Sections[len(m.Sections)-1].HTML
}

// Config describes a page.
type Config struct {
	Who, Ends string   // what the script calls the program, and what its silence may mean; empty: the agent
	Also      []string // commands that show more
	// Model returns nil as long as there is nothing to show; the page then shows Starting.
	Model    func() *Model
	Starting string
	// Follow calls send with the model of the page until its context ends or send fails: after each change, and at
	// least every five seconds.
	Follow func(ctx context.Context, send func(*Model) error) error
	Ticket func() string // the whole page as text; empty: there is nothing to show yet
	// Anybody lets everybody see the page. Otherwise only clients on this node, and connections forwarded to it, may
	// see it; all others get Refusal.
	Anybody bool
	Refusal string
}

type page struct {
	Config
	open chan struct{} // capacity mostPages
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

func asset(text, kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write([]byte(text)) // the client went away
	}
}

// policy lets the page load only its own files, and forbids embedding it in a frame.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// FromHere reports whether a request comes from this node, and not from a foreign page. It is not enough that the
// client is on this node: a foreign page whose name resolves to the loopback address can make a browser there ask. So
// the host name in the request is checked as well.
func FromHere(r *http.Request) bool { return loopback(r.RemoteAddr) && local(r.Host) }

// guard answers clients that may see the page, and refuses all others.
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

// local reports whether a Host header is a name by which only this node reaches itself.
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
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(p.whole(m))) // the client went away
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

// live sends the sections that have changed, for as long as the client reads them.
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
		text, err := update(m, sent)
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
	_ = err // the client is gone, or the program stops: the script tries again and shows that
}

// update is the JSON of the differences from what was sent.
func update(m *Model, sent map[string]string) ([]byte, error) {
	news := map[string]string{"at": m.At}
	for i := range m.Sections {
		id := m.Sections[i].ID
		if html := m.Sections[i].String(); html != sent[id] {
			news[id], sent[id] = html, html
		}
	}
	return json.Marshal(news)
}
