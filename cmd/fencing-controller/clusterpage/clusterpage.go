package clusterpage

import (
	"context"
	_ "embed"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/api/page"
	"github.com/fencing-agent/fencing-agent/k8s/reconcile"
)

const (
	every   = time.Second     // between two looks
	atLeast = 5 * time.Second // something is sent: a page that hears nothing says so
)

//go:embed page.html
var html string

// Config is what the page is made of.
type Config struct {
	Picture func() *reconcile.Picture // from any goroutine
	Version string
	Anybody bool // not only clients on this machine, or what is forwarded to it
}

// Register serves the page on a mux.
func Register(mux *http.ServeMux, c Config) {
	page.Register(mux, page.Config{
		Whole:    template.Must(template.New("page.html").Funcs(page.Funcs()).Parse(html)),
		Sections: []string{"verdict", "dead", "groups", "storm", "replicas"},
		Starting: "This replica has not seen the Nodes yet: it has just started. Reload in a second.",
		Model:    c.model, Follow: c.follow, Anybody: c.Anybody,
		Ticket: func() string {
			if p := c.Picture(); len(p.Groups) > 0 {
				return ticket(p, c.Version)
			}
			return ""
		},
		Refusal: "This page is for clients on this machine alone (page.clients: loopback). Forward the port, as by\n" +
			"kubectl fence ui, and open it as localhost or 127.0.0.1, or set page.clients to any.",
	})
}

// model is nil until the Nodes have been seen.
func (c *Config) model() *page.Model {
	p := c.Picture()
	if len(p.Groups) == 0 {
		return nil
	}
	s := newShown(p, c.Version)
	return &page.Model{Data: s, At: s.At}
}

// follow looks every second, and sends what has changed.
func (c *Config) follow(ctx context.Context, send func(*page.Model) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last []byte
	var sent time.Time
	for {
		if m := c.model(); m != nil {
			now := time.Now()
			if print := m.Data.(*shown).fingerprint(); !slices.Equal(print, last) || now.Sub(sent) >= atLeast {
				if err := send(m); err != nil {
					return err
				}
				last, sent = print, now
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
