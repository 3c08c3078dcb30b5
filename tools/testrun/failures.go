package main

import (
	"fmt"
	"regexp"
	"strings"
)

const (
	listed      = 20 // failures that are named again at the end
	reasonLines = 5  // lines of each reason
)

// failure is a test that failed, in the list at the end of a report. A person who reads only the end, for example of a
// log that was cut, learns of it.
type failure struct {
	what string
	why  []string
}

// list names all failures. .ci/run looks for its lines.
func (r *report) list() {
	for i, f := range r.failures {
		if i == listed {
			fmt.Fprintf(r.out, "failed: and %d more\n", len(r.failures)-listed)
			return
		}
		fmt.Fprintf(r.out, "failed: %s\n%s", f.what, indent(strings.Join(f.why, "\n")))
	}
}

// message matches the first line of a message that a test logs. Further lines of the message are indented more.
var message = regexp.MustCompile(`^ +\S+\.go:\d+: `)

// broke matches the beginning of a message of the runtime itself, whose first lines tell most.
var broke = regexp.MustCompile(`^(panic|fatal error|WARNING: DATA RACE)\b`)

// reason returns why a test failed: the complete messages at the end of its output that fit, or the beginning of the
// last one. go test does not distinguish errors from what a test logged before them, but errors are last.
func reason(output string) []string {
	var lines []string
	for line := range strings.Lines(logged(output)) {
		if line = strings.TrimRight(line, " \t\n"); line != "" {
			lines = append(lines, line)
		}
	}
	for i, line := range lines {
		if broke.MatchString(line) {
			return trim(lines[i:min(len(lines), i+reasonLines)])
		}
	}
	first := max(0, len(lines)-reasonLines)
	for i := len(lines) - 1; i >= 0; i-- {
		if message.MatchString(lines[i]) {
			if i < first {
				return trim(lines[i : i+reasonLines])
			}
			for ; i > first && !message.MatchString(lines[first]); first++ {
			}
			break
		}
	}
	return trim(lines[first:])
}

// reasonWidth is the greatest width of a line of a reason.
const reasonWidth = 300

func trim(lines []string) []string {
	for i, line := range lines {
		if line = strings.TrimSpace(line); len(line) > reasonWidth {
			line = strings.ToValidUTF8(line[:reasonWidth], "") + " …"
		}
		lines[i] = line
	}
	return lines
}
