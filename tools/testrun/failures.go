package main

import (
	"fmt"
	"regexp"
	"strings"
)

const (
	listed      = 20 // failures that are named again at the end
	reasonLines = 5  // of each
)

// failure is a test that failed, as the list at the end of a report shows it: anyone who reads the end only, as of a log that
// was cut, learns of it.
type failure struct {
	what string
	why  []string
}

// list names all that failed. .ci/run looks for its lines.
func (r *report) list() {
	for i, f := range r.failures {
		if i == listed {
			fmt.Fprintf(r.out, "failed: and %d more\n", len(r.failures)-listed)
			return
		}
		fmt.Fprintf(r.out, "failed: %s\n%s", f.what, indent(strings.Join(f.why, "\n")))
	}
}

// message is the first line of what a test logs. Lines that belong to it stand further to the right.
var message = regexp.MustCompile(`^ +\S+\.go:\d+: `)

// broke begins what the runtime says of its own accord, and of which the first lines tell most.
var broke = regexp.MustCompile(`^(panic|fatal error|WARNING: DATA RACE)\b`)

// reason is why a test failed: the whole messages at the end of its output that fit, or the beginning of the last one.
// go test does not tell errors from what a test logged before them, but they are last.
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

// reasonWidth is where a line of a reason ends.
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
