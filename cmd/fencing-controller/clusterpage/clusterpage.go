package clusterpage

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/api/page"
	"github.com/fencing-agent/fencing-agent/k8s/reconcile"
)

const (
	every   = time.Second     // between two looks
	atLeast = 5 * time.Second // a message is sent at least this often: a page that gets nothing reports this
)

// Config holds the sources of the page.
type Config struct {
	Picture func() *reconcile.Picture // called from any goroutine
	Version string
	Anybody bool // everybody may see the page, not only clients on this machine and connections forwarded to it
}

// Register serves the page on a mux.
func Register(mux *http.ServeMux, c Config) {
	page.Register(mux, page.Config{
		Who: "the controller", Ends: "the replica has stopped, or the connection is gone",
		Also:     []string{"kubectl fence explain [NODE]"},
		Starting: "This replica has not seen the Nodes yet: it has just started. Reload in a second.",
		Model:    c.model, Follow: c.follow, Anybody: c.Anybody,
		Ticket: func() string {
			if p := c.Picture(); len(p.Groups) > 0 {
				return ticket(p, c.Version)
			}
			return ""
		},
		Refusal: "This page is for clients on this machine alone (page.clients: loopback). Forward the port, as by\n" +
			"kubectl port-forward, and open it as localhost or 127.0.0.1, or set page.clients to any.",
	})
}

// model is nil until the Nodes have been seen.
func (c *Config) model() *page.Model {
	p := c.Picture()
	if len(p.Groups) == 0 {
		return nil
	}
	s := newShown(p, c.Version)
	m := &page.Model{Title: s.Verdict.Text, At: s.At}
	verdictSection(m.Section("verdict"), s)
	deadSection(m.Section("dead"), s)
	groupsSection(m.Section("groups"), s)
	h := m.Section("storm")
	h.Put("<h2>Pace</h2>\n")
	lines(h, s.Storm)
	h = m.Section("replicas")
	h.Put("<h2>Replicas</h2>\n")
	lines(h, s.Replicas)
	return m
}

// follow looks every second, and sends what has changed, unless only the time has.
func (c *Config) follow(ctx context.Context, send func(*page.Model) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last *page.Model
	var sent time.Time
	for {
		if m := c.model(); m != nil {
			now := time.Now()
			if last == nil || !slices.EqualFunc(m.Sections, last.Sections, same) || now.Sub(sent) >= atLeast {
				if err := send(m); err != nil {
					return err
				}
				last, sent = m, now
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func same(a, b page.Section) bool { return a.String() == b.String() }

func lines(h *page.HTML, all []line) {
	h.Put("<dl>")
	for _, l := range all {
		h.Put(`<dt>{}</dt><dd class="{}">{}</dd>`+"\n", l.Label, l.Style, l.Text)
	}
	h.Put("</dl>")
}

func verdictSection(h *page.HTML, s *shown) {
	h.Put(`<h1 class="{}">{}</h1>`+"\n", s.Verdict.Style, s.Verdict.Text)
	if s.DryRun {
		h.Put(`<p class="warn loud">dryRun: nothing is written on Nodes and pods. What is below is what would be done.</p>` + "\n")
	}
	h.Put(`<p class="small">as replica {} of fencing-controller {} knows it</p>`, s.Self, s.Version)
}

func deadSection(h *page.HTML, s *shown) {
	if len(s.Dead) == 0 {
		h.Put(`<p class="small">No recovery is under way.</p>`)
		return
	}
	h.Put("<h2>Called dead, or recovered</h2>\n")
	for i := range s.Dead {
		d := &s.Dead[i]
		h.Put(`<article class="{}">
<h3><b>{}</b> <span class="small">{}</span> <span class="{}">{}</span> <span class="small">for {}</span></h3>
`, d.Phase.Style, d.Name, d.Group, d.Phase.Style, d.Phase.Text, d.Since)
		if len(d.Steps) > 0 {
			h.Put(`<ol class="terms">`)
			for _, step := range d.Steps {
				if step.Now {
					h.Put(`<li aria-current="step"><i aria-hidden="true">{}</i> <b>{}</b></li>`+"\n", step.Mark, step.Name)
				} else {
					h.Put(`<li><i aria-hidden="true">{}</i> {}</li>`+"\n", step.Mark, step.Name)
				}
			}
			h.Put("</ol>\n")
		}
		h.Put("<p>{}</p>\n", d.Does)
		for _, told := range d.Told {
			h.Put(`<p class="small">{}</p>`+"\n", told)
		}
		h.Put("</article>\n")
	}
}

func groupsSection(h *page.HTML, s *shown) {
	h.Put("<h2>Nodes by group</h2>\n")
	for i := range s.Groups {
		g := &s.Groups[i]
		h.Put(`<h3><b>{}</b>: <span class="{}">{}</span></h3>`+"\n", g.Name, g.Says.Style, g.Says.Text)
		h.Chips(g.Nodes)
	}
	h.Put(`<p class="small">● nobody calls it dead, ◐ somebody does, and it is not enough, ✕ dead, ▲ needs a person, ○ is coming back.</p>`)
}
