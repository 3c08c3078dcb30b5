package statuspage

import (
	"context"
	"net/http"
	"time"

	"github.com/fencing-agent/fencing-agent/api/page"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/history"
)

const mostEvents = 40 // of the timeline

// Config is what the page needs. All functions may be called from any goroutine.
type Config struct {
	Status  func() *fencingv1.Status // nil: there is none yet
	Follow  func(context.Context, func(*fencingv1.Status) error) error
	History func() []history.Record
	Now     func() time.Time // nil: the wall clock
	Zone    *time.Location   // nil: UTC
	// Anybody: everybody may see the page. Otherwise only clients on this node, and connections forwarded to it, may
	// see it.
	Anybody bool
}

// Register serves the page on a mux.
func Register(mux *http.ServeMux, c Config) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Zone == nil {
		c.Zone = time.UTC
	}
	page.Register(mux, page.Config{
		Also:     []string{"fencectl status"},
		Starting: "The agent has no view of its group yet: it has just started. Reload in a second.",
		Model: func() *page.Model {
			if st := c.Status(); st != nil {
				return c.model(st)
			}
			return nil
		},
		Follow: func(ctx context.Context, send func(*page.Model) error) error {
			return c.Follow(ctx, func(st *fencingv1.Status) error { return send(c.model(st)) })
		},
		Ticket: func() string {
			if st := c.Status(); st != nil {
				return view.Ticket(st, c.Now())
			}
			return ""
		},
		Anybody: c.Anybody,
		Refusal: "The status page is for this node alone (http.page: loopback). Forward the port (ssh -L, kubectl port-forward)\n" +
			"and open it as localhost or 127.0.0.1, or set http.page to any.",
	})
}

func (c *Config) model(st *fencingv1.Status) *page.Model {
	now := c.Now()
	v := view.NewModel(st, now, c.Zone)
	m := &page.Model{Title: v.Name + ": " + v.Verdict.Text, At: now.In(c.Zone).Format("2006-01-02 15:04:05 MST")}
	verdict(m.Section("verdict"), v)
	trouble(m.Section("trouble"), v)
	nodes(m.Section("nodes"), v)
	var past view.Timeline
	if c.History != nil {
		past = view.NewTimeline(c.History(), now, c.Zone, mostEvents)
	}
	timeline(m.Section("timeline"), past)
	budget(m.Section("budget"), v)
	parts(m.Section("parts"), v)
	return m
}
