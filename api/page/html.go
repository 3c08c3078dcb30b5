package page

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fencing-agent/fencing-agent/api/view"
)

// HTML is a part of a page that is being written. Only [HTML.Put] writes it, so that a node's text cannot become
// markup. html/template would ensure that as well, but with it the linker keeps every method of every type in the
// program.
type HTML struct{ b strings.Builder }

// markup is HTML from this program's source: other packages can only pass a constant as markup.
type markup string

// escape escapes text like html/template, between tags and in quoted attributes.
var escape = strings.NewReplacer("\x00", "\uFFFD", `"`, "&#34;", "&", "&amp;", "'", "&#39;", "+", "&#43;", "<", "&lt;", ">", "&gt;")

// Put appends markup, with each {} in it replaced by the next of the texts, escaped. A {} may be between tags or in an
// attribute in double quotes, and nowhere else. A [view.Style] becomes the name of its class.
func (h *HTML) Put(m markup, texts ...any) {
	rest := string(m)
	for _, text := range texts {
		before, after, found := strings.Cut(rest, "{}")
		if !found {
			panic(fmt.Sprintf("page: %d texts for %q", len(texts), m))
		}
		h.b.WriteString(before)
		switch text := text.(type) {
		case string:
			_, _ = escape.WriteString(&h.b, text) // a Builder never fails
		case int:
			h.b.WriteString(strconv.Itoa(text))
		case view.Style:
			h.b.WriteString([...]string{"plain", "good", "warn", "bad"}[text&3])
		default:
			panic(fmt.Sprintf("page: a %T is not a text", text))
		}
		rest = after
	}
	if strings.Contains(rest, "{}") {
		panic(fmt.Sprintf("page: %d texts for %q", len(texts), m))
	}
	h.b.WriteString(rest)
}

// String returns the HTML.
func (h *HTML) String() string { return h.b.String() }

// Chips writes short forms of nodes.
func (h *HTML) Chips(chips []view.Chip) {
	h.Put(`<ul class="chips">`)
	for i := range chips {
		c := &chips[i]
		h.Put(`<li class="{}" title="{}: {}"><i>{}</i> {}</li>`+"\n", c.Style, c.Name, c.Text, c.Marks, c.Name)
	}
	h.Put("</ul>\n")
}

// whole returns the page that a browser loads.
func (p *page) whole(m *Model) string {
	h := &HTML{}
	h.Put(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{}</title>
<link rel="stylesheet" href="page.css">
<script src="page.js" defer></script>
<noscript><meta http-equiv="refresh" content="5"></noscript>
</head>
`, m.Title)
	if p.Who != "" {
		h.Put(`<body data-who="{}" data-ends="{}">`, p.Who, p.Ends)
	} else {
		h.Put("<body>")
	}
	h.Put(`
<p id="lost" role="alert" hidden></p>
<main>
`)
	for i := range m.Sections {
		s := &m.Sections[i]
		h.Put(`<section id="{}"`, s.ID)
		if i == 0 {
			h.Put(` aria-live="polite"`) // the verdict
		}
		h.Put(">")
		h.b.WriteString(s.String())
		h.Put("</section>\n")
	}
	h.Put(`</main>
<footer>
<p><a href="ticket">All of it as text</a> <button id="copy" type="button" hidden>Copy for a ticket</button> <span id="copied" role="status"></span></p>
<p>As of <span id="at">{}</span>. Nothing can be changed here; see also `, m.At)
	for i, command := range p.Also {
		if i > 0 {
			h.Put(" and ")
		}
		h.Put("<code>{}</code>", command)
	}
	h.Put(`.</p>
</footer>
</body>
</html>
`)
	return h.String()
}
