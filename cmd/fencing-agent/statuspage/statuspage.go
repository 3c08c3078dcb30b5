package statuspage

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/history"
)

const (
	writeLimit = 10 * time.Second // a client that takes longer is gone
	mostEvents = 40               // of the timeline
	mostPages  = 8                // that are kept up to date at once
)

//go:embed assets
var assets embed.FS

// Config is what the page is made of. All functions may be called from any goroutine.
type Config struct {
	Status  func() *fencingv1.Status // nil: there is none yet
	Follow  func(context.Context, func(*fencingv1.Status) error) error
	History func() []history.Record
	Now     func() time.Time // nil: the wall clock
	Zone    *time.Location   // nil: UTC
	// Anybody: not only clients on this node, or what is forwarded to it.
	Anybody bool
}

type page struct {
	Config
	whole    *template.Template
	sections []string
	open     chan struct{} // capacity mostPages
}

// Register serves the page on a mux.
func Register(mux *http.ServeMux, c Config) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Zone == nil {
		c.Zone = time.UTC
	}
	p := &page{Config: c, sections: []string{"verdict", "trouble", "nodes", "budget", "parts", "timeline"}, open: make(chan struct{}, mostPages)}
	p.whole = template.Must(template.New("page.html").Funcs(template.FuncMap{"class": class, "mark": view.Mark, "zero": func(s view.Span) bool { return s.Text == "" }}).
		ParseFS(assets, "assets/page.html"))
	mux.Handle("GET /{$}", p.guard(p.html))
	mux.Handle("GET /ticket", p.guard(p.ticket))
	mux.Handle("GET /live", p.guard(p.live))
	mux.Handle("GET /page.css", p.guard(asset("page.css", "text/css; charset=utf-8")))
	mux.Handle("GET /page.js", p.guard(asset("page.js", "text/javascript; charset=utf-8")))
}

func class(s view.Style) string { return [...]string{"plain", "good", "warn", "bad"}[s&3] }

func asset(name, kind string) http.HandlerFunc {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text) // the client went away
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
			http.Error(w, "The status page is for this node alone (http.page: loopback). Forward the port (ssh -L, kubectl port-forward)\n"+
				"and open it as localhost or 127.0.0.1, or set http.page to any.", http.StatusForbidden)
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

// shown is what the template is made of.
type shown struct {
	*view.Model
	Timeline view.Timeline
	At       string
}

func (p *page) model(st *fencingv1.Status) *shown {
	now := p.Now()
	s := &shown{Model: view.NewModel(st, now, p.Zone), At: now.In(p.Zone).Format("2006-01-02 15:04:05 MST")}
	if p.History != nil {
		s.Timeline = view.NewTimeline(p.History(), now, p.Zone, mostEvents)
	}
	return s
}

func (p *page) html(w http.ResponseWriter, _ *http.Request) {
	st := p.Status()
	if st == nil {
		http.Error(w, "The agent has no view of its group yet: it has just started. Reload in a second.", http.StatusServiceUnavailable)
		return
	}
	var b bytes.Buffer
	if err := p.whole.Execute(&b, p.model(st)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // the client went away
}

func (p *page) ticket(w http.ResponseWriter, _ *http.Request) {
	st := p.Status()
	if st == nil {
		http.Error(w, "the agent has no view of its group yet", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(view.Ticket(st, p.Now()))) // the client went away
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
	err := p.Follow(r.Context(), func(st *fencingv1.Status) error {
		text, err := p.update(st, sent)
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
	_ = err // the client has gone, or the agent stops: the script tries again and says so
}

// update is the JSON of what differs from what was sent.
func (p *page) update(st *fencingv1.Status, sent map[string]string) ([]byte, error) {
	m := p.model(st)
	news := map[string]string{"at": m.At}
	for _, name := range p.sections {
		var b bytes.Buffer
		if err := p.whole.ExecuteTemplate(&b, name, m); err != nil {
			return nil, err
		}
		if html := b.String(); html != sent[name] {
			news[name], sent[name] = html, html
		}
	}
	return json.Marshal(news)
}
