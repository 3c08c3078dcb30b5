package config

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Problem is one thing in a configuration that is wrong or doubtful.
type Problem struct {
	Path    string // of the key, e.g. systemNetworks[1].at; empty: the whole file
	Line    int    // of the key or of the section it would belong to; 0: not in the file
	What    string // what is wrong
	Found   string // the value, empty if What says it
	Allowed string // what is allowed, or what to do
}

// String prints the problem on one line, without the line number.
func (p Problem) String() string {
	var b strings.Builder
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.What)
	if p.Found != "" {
		b.WriteString(", found " + p.Found)
	}
	if p.Allowed != "" {
		b.WriteString("; allowed: " + p.Allowed)
	}
	return b.String()
}

// Invalid is the error of a configuration that was read and refused.
type Invalid struct {
	File     string
	Problems []Problem // sorted by line
}

// Error prints one problem a line, each with file and line number.
func (e *Invalid) Error() string { return strings.Join(Lines(e.File, e.Problems), "\n") }

// Lines prints problems or warnings in the form FILE:LINE: TEXT, one string each.
func Lines(file string, problems []Problem) []string {
	out := make([]string, len(problems))
	for i, p := range problems {
		if p.Line > 0 {
			out[i] = fmt.Sprintf("%s:%d: %s", file, p.Line, p)
		} else {
			out[i] = fmt.Sprintf("%s: %s", file, p)
		}
	}
	return out
}

// report collects problems. Keys that could not be read are remembered as refused, so that later checks do not complain
// about the default that replaces them.
type report struct {
	name     string // of the file
	problems []Problem
	warnings []Problem
	lines    map[string]int // by path, of each key that the file gives
	refused  map[string]bool

	hostname   func() (string, error) // os.Hostname
	anyMembers bool                   // the list of members need not contain this node
	everyNode  bool                   // a file that is not for a particular node is checked for all nodes that it lists
}

func newReport() *report {
	return &report{lines: make(map[string]int), refused: make(map[string]bool), hostname: os.Hostname}
}

// refuse reports a key whose value cannot be used at all.
func (r *report) refuse(path, what, found, allowed string) {
	r.refused[path] = true
	r.problems = append(r.problems, Problem{path, r.line(path), what, found, allowed})
}

// problem reports what a check found, unless the key was refused already. A nil found
// leaves the value out.
func (r *report) problem(path, what string, found any, allowed string, args ...any) {
	if !r.isRefused(path) {
		r.problems = append(r.problems, r.entry(path, what, found, allowed, args))
	}
}

// warn reports what is legal but probably not meant.
func (r *report) warn(path, what string, found any) {
	if !r.isRefused(path) {
		r.warnings = append(r.warnings, r.entry(path, what, found, "", nil))
	}
}

func (r *report) entry(path, what string, found any, allowed string, args []any) Problem {
	p := Problem{Path: path, Line: r.line(path), What: what, Allowed: fmt.Sprintf(allowed, args...)}
	if found != nil {
		p.Found = shown(fmt.Sprint(found))
	}
	return p
}

// given reports whether the file has the key.
func (r *report) given(path string) bool { return r.lines[path] > 0 }

// line finds the line of a key or, when the file lacks it, of the section around it.
func (r *report) line(path string) int {
	for p := path; p != ""; p = parent(p) {
		if n := r.lines[p]; n > 0 {
			return n
		}
	}
	return 0
}

// isRefused reports whether the key or a section around it was refused.
func (r *report) isRefused(path string) bool {
	for p := path; p != ""; p = parent(p) {
		if r.refused[p] {
			return true
		}
	}
	return false
}

// intact reports whether none of the keys was refused: otherwise a check over several keys would only compare with a
// default.
func (r *report) intact(paths ...string) bool { return !slices.ContainsFunc(paths, r.isRefused) }

// sorted orders problems by line; problems of one line stay in the order of discovery.
func sorted(ps []Problem) []Problem {
	slices.SortStableFunc(ps, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return ps
}

// parent cuts the last key or index from a path.
func parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i > 0 {
		return path[:i]
	}
	return ""
}

// child appends a key to a path. Keys that a path could not show plainly are quoted.
func child(path, key string) string {
	plain := key != "" && !strings.ContainsFunc(key, func(c rune) bool {
		return !strings.ContainsRune("-_", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c)
	})
	switch {
	case !plain:
		return path + "[" + strconv.Quote(cut(key)) + "]"
	case path == "":
		return key
	default:
		return path + "." + key
	}
}

// element appends an index to a path.
func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// shown makes a value fit into one line of output: bounded, and quoted unless it is plain.
func shown(value string) string {
	plain := value != "" && !strings.ContainsFunc(value, func(c rune) bool {
		return !unicode.IsPrint(c) || c == unicode.ReplacementChar || c == '"'
	}) && strings.TrimSpace(value) == value
	if value = cut(value); plain {
		return value
	}
	return strconv.Quote(value)
}

// cut bounds the length of what a message quotes from the file.
func cut(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
