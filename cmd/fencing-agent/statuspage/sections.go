package statuspage

import (
	"github.com/fencing-agent/fencing-agent/api/page"
	"github.com/fencing-agent/fencing-agent/api/view"
)

func spans(h *page.HTML, all []view.Span) {
	for _, s := range all {
		h.Put(`<span class="{}">{}</span> `, s.Style, s.Text)
	}
}

func verdict(h *page.HTML, v *view.Model) {
	h.Put(`<h1 class="{}"><span class="who">{}</span> {}</h1>`+"\n", v.Verdict.Style, v.Name, v.Verdict.Text)
	if v.Stale != "" {
		h.Put(`<p class="bad loud">THE AGENT STANDS STILL: its last status is {} old. Its permission to feed ends by itself.</p>`+"\n", v.Stale)
	}
	h.Put("<p>{}</p>\n", v.Reason)
	if v.Consequence.Text != "" {
		h.Put(`<p class="{} loud">{}</p>`+"\n", v.Consequence.Style, v.Consequence.Text)
	}
	h.Put(`<p class="small">since {}; {}</p>`, v.Since, v.Where)
}

func trouble(h *page.HTML, v *view.Model) {
	if len(v.Missing) > 0 || len(v.Faults) > 0 {
		h.Put("<h2>Not in order</h2>\n<ul>")
		for _, g := range v.Missing {
			h.Put(`<li class="{}">{}</li>`+"\n", g.Style, g.Text())
		}
		for _, f := range v.Faults {
			h.Put("<li><b>{}</b> ", f.Label)
			spans(h, f.Spans)
			h.Put("</li>\n")
		}
		h.Put("</ul>\n")
	}
	h.Put(`<p class="small">In order: {}</p>`, v.Fine)
}

func nodes(h *page.HTML, v *view.Model) {
	h.Put("<h2>Nodes and networks</h2>\n" + `<div class="wide"><table>` + "\n<thead><tr>")
	for _, s := range v.Header {
		h.Put(`<th scope="col" class="{}">{}</th>`, s.Style, s.Text)
	}
	h.Put("</tr></thead>\n<tbody>")
	for _, row := range v.Rows {
		h.Put("<tr>")
		for _, s := range row {
			h.Put(`<td class="{}">`, s.Style)
			if mark := view.Mark(s); mark != "" {
				h.Put(`<i aria-hidden="true">{}</i> `, mark)
			}
			h.Put("{}</td>", s.Text)
		}
		h.Put("</tr>\n")
	}
	h.Put("</tbody></table></div>\n")
	if v.Footer != "" {
		h.Put(`<p class="small">{}</p>`, v.Footer)
	}
	h.Put("\n")
	if len(v.Chips) > 0 {
		h.Chips(v.Chips)
		h.Put(`<p class="small">One sign for each network: ● answers, ◐ answers too late, ✕ lost, ○ never answered, ▼ down here.</p>`)
	}
}

func timeline(h *page.HTML, past view.Timeline) {
	h.Put("<h2>The last 24 hours</h2>\n")
	if len(past.Spans) == 0 {
		h.Put(`<p class="small">Nothing is on record: experimental.historyMegabytes is 0, or the agent has just started.</p>`)
		return
	}
	h.Put(`<svg class="bar" viewBox="0 0 1000 24" preserveAspectRatio="none" role="img" aria-label="what the agent did in the last 24 hours">
<defs>
<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse"><path d="M0 6 6 0" class="stroke"></path></pattern>
<pattern id="cross" width="6" height="6" patternUnits="userSpaceOnUse"><path d="M0 6 6 0M0 0 6 6" class="stroke"></path></pattern>
</defs>
`)
	for _, s := range past.Spans {
		y, height := 0, 24
		switch s.Kind {
		case "fed":
			y, height = 12, 12
		case "none":
			y, height = 20, 4
		}
		h.Put(`<rect class="t-{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>`+"\n", s.Kind, s.From, y, s.Length, height, s.Text)
		switch s.Kind {
		case "starved":
			h.Put(`<rect fill="url(#cross)" x="{}" y="0" width="{}" height="24"></rect>`, s.From, s.Length)
		case "undecided":
			h.Put(`<rect fill="url(#hatch)" x="{}" y="0" width="{}" height="24"></rect>`, s.From, s.Length)
		}
	}
	h.Put("</svg>\n" + `<p class="small scale"><span>24 h ago</span><span>low: fed; full height: not fed (crossed), undecided (hatched), disarmed (plain); line: nothing on record</span><span>now</span></p>
<details open><summary>What happened, the latest first</summary><ol class="events">`)
	for _, e := range past.Events {
		h.Put(`<li class="{}"><time>{}</time> {}</li>`+"\n", e.Style, e.At, e.Text)
	}
	h.Put("</ol></details>")
}

func budget(h *page.HTML, v *view.Model) {
	h.Put("<h2>Time until a lost node has been reset</h2>\n")
	for _, b := range v.Budget {
		h.Put("<h3>{}: {}</h3>\n"+`<svg class="bar" viewBox="0 0 1000 24" preserveAspectRatio="none" role="img" aria-label="{}, {}">`, b.Name, b.Total, b.Name, b.Total)
		for _, t := range b.Terms {
			h.Put(`<rect class="b{}" x="{}" y="0" width="{}" height="24"><title>{} {}</title></rect>`, t.Color, t.From, t.Length, t.Text, t.Name)
		}
		h.Put("</svg>\n" + `<ol class="terms">`)
		for _, t := range b.Terms {
			h.Put(`<li><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="b{}" width="10" height="10"></rect></svg> {} {}</li>`+"\n", t.Color, t.Text, t.Name)
		}
		h.Put("</ol>\n")
	}
}

func parts(h *page.HTML, v *view.Model) {
	h.Put("<h2>Parts</h2>\n<dl>")
	for _, item := range v.Items {
		h.Put("<dt>{}</dt><dd>", item.Label)
		spans(h, item.Spans)
		h.Put("</dd>\n")
	}
	h.Put("</dl>")
}
