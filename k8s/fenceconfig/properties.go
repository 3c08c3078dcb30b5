package fenceconfig

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Problem is something that is wrong with a ConfigMap.
type Problem struct {
	Object  string `json:"object"` // the ConfigMap's name
	Line    int    `json:"line"`   // 0: the object as a whole
	Text    string `json:"text"`
	Warning bool   `json:"warning"` // it does not cause a refusal
	// Unread is true if the object or key looks like a part of the configuration but is not read, so an intention is
	// not carried out. That does not cause a refusal either, but it is more than a warning.
	Unread bool `json:"unread,omitempty"`
}

// String returns the problem in one line for people.
func (p Problem) String() string {
	where := p.Object
	if p.Line > 0 {
		where = fmt.Sprintf("%s:%d", p.Object, p.Line)
	}
	if p.Warning && !p.Unread {
		return where + ": warning: " + p.Text
	}
	return where + ": " + p.Text
}

// misspelt lists keys that were published with an error in them. They are accepted, with a warning.
var misspelt = map[string]string{"must_sucess": "must_success", "precentage": "max_unhealthy_percent", "power_managment": "power_management"}

// property is one line of a text of properties.
type property struct {
	line       int
	key, value string
}

// properties splits a text into KEY=VALUE lines; the value is everything after the first =. Fence agents treat dashes
// in keys as underscores, and so does this function.
func properties(object, text string) ([]property, []Problem) {
	var list []property
	var problems []Problem
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key = strings.ReplaceAll(strings.TrimSpace(key), "-", "_")
		if !ok || !isWord(key) {
			problems = append(problems, Problem{object, i + 1, "this line must be KEY=VALUE, with a key of letters, digits and underscores", false, false})
			continue
		}
		if right := misspelt[key]; right != "" {
			problems = append(problems, Problem{object, i + 1, fmt.Sprintf("%s is misspelt: it is read as %s", key, right), true, false})
			key = right
		}
		if slices.ContainsFunc(list, func(p property) bool { return p.key == key }) {
			problems = append(problems, Problem{object, i + 1, key + " is given twice: remove one of them", false, false})
			continue
		}
		list = append(list, property{i + 1, key, strings.TrimSpace(value)})
	}
	return list, problems
}

// isWord reports whether a fence agent can have this key.
func isWord(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) < 0
}

// reader takes known keys out of an object, and collects problems.
type reader struct {
	object   string
	left     []property
	problems []Problem
}

func newReader(object, text string) *reader {
	list, problems := properties(object, text)
	return &reader{object, list, problems}
}

func (r *reader) add(line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.object, line, fmt.Sprintf(format, args...), false, false})
}

func (r *reader) warn(line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.object, line, fmt.Sprintf(format, args...), true, false})
}

// take returns a key's value and line; the line is 0 if it is not given.
func (r *reader) take(key string) (string, int) {
	for i, p := range r.left {
		if p.key == key {
			r.left = slices.Delete(r.left, i, i+1)
			return p.value, p.line
		}
	}
	return "", 0
}

// choice returns the key's value, which must be one of the values, or the first of them if the key is not given.
func (r *reader) choice(key string, values ...string) string {
	v, line := r.take(key)
	if line == 0 {
		return values[0]
	}
	if !slices.Contains(values, v) {
		r.add(line, "%s is %q; allowed: %s", key, v, strings.Join(values, ", "))
		return values[0]
	}
	return v
}

// number returns the key's value, which must be within the bounds, or the default.
func (r *reader) number(key string, def, low, high int) int { return r.amount(key, "", def, low, high) }

// seconds is like number, for whole seconds.
func (r *reader) seconds(key string, def, low, high int) time.Duration {
	return time.Duration(r.amount(key, " seconds, without a unit", def, low, high)) * time.Second
}

func (r *reader) amount(key, of string, def, low, high int) int {
	v, line := r.take(key)
	if line == 0 {
		return def
	}
	n := 0
	if _, err := fmt.Sscanf(v, "%d", &n); err != nil || fmt.Sprint(n) != v || n < low || n > high {
		r.add(line, "%s is %q; allowed: %d to %d%s", key, v, low, high, of)
		return def
	}
	return n
}

// unknown reports the keys that nothing has taken.
func (r *reader) unknown(known string) {
	for _, p := range r.left {
		r.add(p.line, "%s is not a known key; known: %s", p.key, known)
	}
}
