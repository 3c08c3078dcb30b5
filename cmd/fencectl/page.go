package main

import (
	"bytes"
	"os"
	"strings"

	"golang.org/x/term"
)

const (
	// pageWidth is where text is wrapped at the latest, and where nobody looks at it on a terminal:
	// longer lines are hard to read.
	pageWidth = 100
	// labelWidth is the column in which the text of an item begins.
	labelWidth = 14
)

// style is what a piece of text is to a person who looks for trouble.
type style uint8

const (
	plain style = iota
	good
	warn
	bad
)

// escapes are the terminal's sequences for the styles.
var escapes = [...]string{plain: "", good: "\x1b[32m", warn: "\x1b[33m", bad: "\x1b[1;31m"}

// span is a piece of text in one style.
type span struct {
	text  string
	style style
}

// page is text for a terminal that does not depend on colors or on anything but ASCII:
// whatever else a name or an error contains becomes a question mark, since it comes from
// other nodes and a terminal obeys some of it.
type page struct {
	buf   bytes.Buffer
	color bool
	width int // of the terminal; 0: unknown
}

// wrapAt is the width of a line of text.
func (p *page) wrapAt() int {
	if p.width <= 0 {
		return pageWidth
	}
	return min(p.width, pageWidth)
}

// clean makes foreign text safe to print.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// paint writes one piece without a line break.
func (p *page) paint(s span) {
	text := clean(s.text)
	if !p.color || s.style == plain || strings.TrimSpace(text) == "" {
		p.buf.WriteString(text)
		return
	}
	p.buf.WriteString(escapes[s.style] + text + "\x1b[0m")
}

// text writes a paragraph: label, then the spans, wrapped at the words. Further lines
// begin in the column indent.
func (p *page) text(label string, indent int, spans ...span) {
	column := len(clean(label))
	p.paint(span{label, plain})
	first := true
	for _, s := range spans {
		for word := range strings.FieldsSeq(s.text) {
			n := len(clean(word))
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
			p.paint(span{word, s.style})
			column += n
		}
	}
	p.buf.WriteByte('\n')
}

// item writes a line with a label.
func (p *page) item(label string, spans ...span) {
	p.text(label+strings.Repeat(" ", max(1, labelWidth-len(clean(label)))), labelWidth, spans...)
}

// gap separates what follows.
func (p *page) gap() { p.buf.WriteByte('\n') }

// grid writes rows of cells in aligned columns.
func (p *page) grid(rows [][]span) {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len(clean(c.text)))
		}
	}
	for _, row := range rows {
		column, at := 0, 0
		for i, c := range row {
			if c.text != "" { // so that no line ends in spaces
				p.buf.WriteString(strings.Repeat(" ", at-column))
				p.paint(c)
				column = at + len(clean(c.text))
			}
			at += widths[i] + 2
		}
		p.buf.WriteByte('\n')
	}
}

// colorful reports whether a person looks at the output and likes colors.
func colorful(env *environment) bool {
	f, ok := env.stdout.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && env.getenv("NO_COLOR") == ""
}
