package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/words"
)

// Model is a status as a page shows it: all texts with their styles.
type Model struct {
	Name, Where string
	Stale       string // for how long the agent has stood still; empty: it does not stand still
	Verdict     Span
	Reason      string
	Consequence Span
	Since       string

	Missing []Group
	Faults  []Item
	Fine    string

	Header []Span
	Rows   [][]Span // nodes one by one: all of a small group, otherwise those with trouble
	Footer string
	Chips  []Chip // every node of a large group

	Items  []Item
	Budget []Bar
}

// Chip is the short form of a node.
type Chip struct {
	Name  string
	Marks string // one sign for each network
	Text  string
	Style Style
}

// Bar is a duration and its terms.
type Bar struct {
	Name, Total string
	Terms       []Term
}

// Term is a part of a bar. From and Length are in thousandths of the longest bar.
type Term struct {
	Name, Text   string
	From, Length int
	Color        int // the same for the same name
}

// colored lists the names of terms in the order of their colors.
var colored = []string{"evidence", "sampling", "arbitration", "feed", "watchdog", "release", "margin", "grant", "evidence on the LUN"}

// NewModel returns the model of a status at now.
func NewModel(st *fencingv1.Status, now time.Time, zone *time.Location) *Model {
	self, v := st.GetSelf(), st.GetVerdict()
	out := &Model{
		Name: self.GetName(), Where: "group " + OrUnknown(self.GetGroup()) + " of cluster " + OrUnknown(self.GetCluster()) + ", agent " + OrUnknown(self.GetVersion()),
		Verdict: Permission(st), Reason: words.Reason(v) + lasting(v), Consequence: Consequence(st),
		Missing: Missing(st), Faults: Faults(st, zone), Fine: Fine(st), Budget: bars(st),
	}
	if age, old := Stale(st, now); old {
		out.Stale, out.Verdict.Style = Brief(age), Bad
	}
	if since := v.GetSince(); since != nil {
		out.Since = since.AsTime().In(zone).Format(time.DateTime) + " (" + Brief(max(0, st.GetTime().AsTime().Sub(since.AsTime()))) + ")"
	}
	p := &Page{}
	allItems(p, st)
	before(p, st, zone)
	out.Items = p.items
	m := newMatrix(st)
	nodes := Natural(st.GetNodes())
	shown, footer := new(Text).choose(nodes, m)
	out.Header, out.Footer = m.header(), strings.ReplaceAll(footer, "--all shows them", "see below")
	for _, n := range shown {
		out.Rows = append(out.Rows, m.row(n))
	}
	if len(nodes) > smallGroup {
		for _, n := range nodes {
			out.Chips = append(out.Chips, m.chip(n))
		}
	}
	return out
}

// marks holds signs of different shapes, by the first word of a cell.
var marks = map[string]string{"ok": "●", "up": "●", "STALE": "◐", "LOST": "✕", "NEVER": "○", "DOWN": "▼", "-": "–"}

// Mark returns the sign of a cell of the table; empty: it has none.
func Mark(s Span) string {
	word, _, _ := strings.Cut(s.Text, " ")
	if word == "-" {
		return ""
	}
	return marks[word]
}

func (m *matrix) chip(n *fencingv1.NodeStatus) Chip {
	c := Chip{Name: n.GetName(), Text: m.state(n).Text}
	for i, network := range m.nets {
		link := m.link(i, n.GetName())
		c.Marks += cmp.Or(Mark(link), marks["-"])
		c.Text += ", " + network.GetName() + " " + link.Text
	}
	if n.GetName() != m.self && m.trouble(n) {
		_, c.Style, _ = m.matter(n)
	}
	return c
}

func bars(st *fencingv1.Status) []Bar {
	all := budgets(st)
	longest := time.Duration(1)
	for _, b := range all {
		longest = max(longest, b.total.AsDuration(), total(b.terms))
	}
	var out []Bar
	for _, b := range all {
		bar := Bar{Name: b.name, Total: Exact(b.total)}
		at := time.Duration(0)
		for _, t := range b.terms {
			bar.Terms = append(bar.Terms, Term{Name: t.name, Text: Exact(t.Duration), From: thousandths(at, longest), Length: max(1, thousandths(t.AsDuration(), longest)), Color: max(0, slices.Index(colored, t.name))})
			at += t.AsDuration()
		}
		out = append(out, bar)
	}
	return out
}

func thousandths(d, of time.Duration) int { return int(1000 * d / of) }

// Ticket returns the whole status as text, for a ticket.
func Ticket(st *fencingv1.Status, now time.Time) string {
	t := Text{Now: now, Zone: time.UTC, Verbose: true, Width: widest}
	head := "fencing-agent, " + st.GetTime().AsTime().UTC().Format(time.RFC3339) + "\n\n"
	return head + string(t.Render(st))
}
