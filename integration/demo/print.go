package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// timeColumn is the column of the times, far enough right for most lines.
const timeColumn = 66

// printer writes the story: steps, pictures and expectations with the time they took.
type printer struct {
	out   io.Writer
	color bool
	step  int
	held  int
}

func (p *printer) line(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

func (p *printer) heading(format string, args ...any) {
	p.step++
	p.line("\n%s", p.paint("1", fmt.Sprintf("%d  %s", p.step, fmt.Sprintf(format, args...))))
}

// kept reports an expectation that held, the time since the step's cause and a remark.
func (p *printer) kept(what string, took time.Duration, remark string) {
	p.held++
	pad := strings.Repeat(" ", max(1, timeColumn-utf8.RuneCountInString(what)))
	if remark != "" {
		remark = "  " + remark
	}
	p.line("   %s %s%s%7s%s", p.paint("32", "✓"), what, pad, seconds(took), remark)
}

func (p *printer) broken(what string, why error) {
	p.line("   %s %s", p.paint("31", "✗"), what)
	p.line("     %s", strings.ReplaceAll(why.Error(), "\n", "\n     "))
}

func (p *printer) paint(code, text string) string {
	if !p.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// picture draws each network as a row of nodes, joined or cut apart.
func (p *printer) picture(all, cutNetworks []string, groups ...[]string) {
	for _, network := range networks {
		row := join(all, "───")
		if slices.Contains(cutNetworks, network) {
			var parts []string
			for _, g := range groups {
				parts = append(parts, join(g, "───"))
			}
			row = strings.Join(parts, p.paint("31", " ╳ "))
		}
		p.line("     %-5s %s", network, row)
	}
}

func join(nodes []string, by string) string { return strings.Join(nodes, by) }

func list(nodes []string) string { return strings.Join(nodes, " ") }

// seconds prints a duration to a tenth of a second.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
