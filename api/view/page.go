package view

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fencing-agent/fencing-agent/api/trouble"
)

const (
	// pageWidth is the column at which text is wrapped if the width of the terminal is not known.
	pageWidth = 80
	// widest is the longest line: longer ones are hard to read.
	widest = 100
	// labelWidth is the column in which the text of an item begins.
	labelWidth = 14
)

// Style is the importance of a text for a person who looks for trouble.
type Style uint8

const (
	Plain Style = iota
	Good
	Warn
	Bad
)

// escapes are the terminal's sequences for the styles.
var escapes = [...]string{Plain: "", Good: "\x1b[32m", Warn: "\x1b[33m", Bad: "\x1b[1;31m"}

// Span is a piece of text in one style.
type Span struct {
	Text  string
	Style Style
}

// Page is text for a terminal. It does not depend on colors, and only contains ASCII. Every other character of a name
// or an error becomes a question mark: it may come from another node, and could control the terminal.
type Page struct {
	buf   bytes.Buffer
	Color bool
	Width int // of the terminal; 0: unknown
	items []Item
}

// Item is a line with a label, and the troubles that it shows.
type Item struct {
	Label  string
	Spans  []Span
	Faults []trouble.Found
}

// fault adds a text about a trouble, in the style of its severity.
func (i *Item) fault(t *trouble.Trouble, subject, text string) {
	i.Spans = append(i.Spans, Span{text, style(t)})
	if !slices.ContainsFunc(i.Faults, func(f trouble.Found) bool { return f.Trouble == t }) {
		i.Faults = append(i.Faults, trouble.Found{Trouble: t, Subject: subject})
	}
}

func (i *Item) say(text string) { i.Spans = append(i.Spans, Span{text, Plain}) }

func style(t *trouble.Trouble) Style {
	if t.Severity == trouble.Critical {
		return Bad
	}
	return Warn
}

// Say returns text in a style.
func Say(text string, style Style) Span { return Span{text, style} }

// Bytes returns the text so far.
func (p *Page) Bytes() []byte { return p.buf.Bytes() }

// wrapAt returns the width of a line of text.
func (p *Page) wrapAt() int {
	if p.Width <= 0 {
		return pageWidth
	}
	return min(p.Width, widest)
}

// Clean makes foreign text safe to print.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// Paint writes one text without a line break.
func (p *Page) Paint(s Span) {
	text := Clean(s.Text)
	if !p.Color || s.Style == Plain || strings.TrimSpace(text) == "" {
		p.buf.WriteString(text)
		return
	}
	p.buf.WriteString(escapes[s.Style] + text + "\x1b[0m")
}

// Text writes a paragraph: label, then the spans, wrapped at the words. Further lines begin in the column indent.
func (p *Page) Text(label string, indent int, spans ...Span) {
	column := len(Clean(label))
	p.Paint(Span{label, Plain})
	first := true
	for _, s := range spans {
		for word := range strings.FieldsSeq(s.Text) {
			n := len(Clean(word))
			switch {
			case first:
			case column+1+n > p.wrapAt():
				p.buf.WriteString("\n" + strings.Repeat(" ", indent))
				column = indent
			default:
				p.buf.WriteByte(' ')
				column++
			}
			first = false
			p.Paint(Span{word, s.Style})
			column += n
		}
	}
	p.buf.WriteByte('\n')
}

// item writes a line with a label.
func (p *Page) item(label string, spans ...Span) {
	p.add(Item{Label: label, Spans: spans})
}

// fault writes a line that only shows a trouble of the whole node.
func (p *Page) fault(label string, t *trouble.Trouble, text string) {
	i := Item{Label: label}
	i.fault(t, "", text)
	p.add(i)
}

func (p *Page) add(i Item) {
	p.items = append(p.items, i)
	label := i.Label
	p.Text(label+strings.Repeat(" ", max(1, labelWidth-len(Clean(label)))), labelWidth, i.Spans...)
}

// Gap ends a line, or adds an empty one.
func (p *Page) Gap() { p.buf.WriteByte('\n') }

// grid writes rows of cells in aligned columns.
func (p *Page) grid(rows [][]Span) {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len(Clean(c.Text)))
		}
	}
	for _, row := range rows {
		column, at := 0, 0
		for i, c := range row {
			if c.Text != "" { // so that no line ends in spaces
				p.buf.WriteString(strings.Repeat(" ", at-column))
				p.Paint(c)
				column = at + len(Clean(c.Text))
			}
			at += widths[i] + 2
		}
		p.buf.WriteByte('\n')
	}
}
