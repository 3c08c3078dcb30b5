package fenceconfig

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ours lists the names, or their beginnings, of the objects that are read.
var ours = []string{templatePrefix, methodPrefix, nodePrefix, ClusterObject, ClusterAlias, AgentsObject}

// drafts maps names of older drafts to what is read instead.
var drafts = map[string]string{
	"node-fence-config": nodePrefix + "NODE", "fence-stage": "the keys isolation, power_management and recovery of " + nodePrefix + "NODE",
	"fencing-config-": nodePrefix + "NODE", "fencing-method-": methodPrefix + "METHOD-NODE", "node-fence-": nodePrefix + "NODE",
}

// words lists keys that only a configuration of fencing has, of this version or of an older draft.
var words = []string{
	"agent_name", "node_name", "power_management", "must_success", "grace_timeout", "giveup_retries", "isolation_policy", "recovery_policy",
	"fence_method", "fence_stage", "recover_stage", "execution_policy", "method_name",
}

// unread reports everything that looks like a part of the configuration but is not read: a name or a key of the data
// that is nearly one of ours, a text with our keys in it, and objects that nothing refers to.
func (c *Config) unread(objects Objects, used map[string]bool) {
	tell := func(object, format string, args ...any) {
		c.Problems = append(c.Problems, Problem{Object: object, Text: fmt.Sprintf(format, args...), Warning: true, Unread: true})
	}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		key := keyOf(name)
		switch {
		case name == AgentsObject:
			continue // that its own key is missing is reported elsewhere
		case key == "" && looksLike(name, objects[name]) != "":
			tell(name, "this is not read: is it meant to be %s?", looksLike(name, objects[name]))
			continue
		case key == "":
			continue
		case key == MethodKey && !used[name]:
			tell(name, "this is not read, because no node uses it: a ConfigMap %sNODE has to list it", nodePrefix)
		case key == TemplateKey && !used[name]:
			c.Problems = append(c.Problems, Problem{Object: name, Text: "no node uses this", Warning: true})
		}
		for _, other := range slices.Sorted(maps.Keys(objects[name])) {
			if other != key {
				tell(name, "its key %s is not read: only %s is", other, key)
			}
		}
	}
}

// keyOf returns the key of the data by which an object of this name is read; empty: the object is not read.
func keyOf(name string) string {
	switch {
	case name == ClusterObject, name == ClusterAlias, strings.HasPrefix(name, nodePrefix):
		return ConfigKey
	case strings.HasPrefix(name, templatePrefix):
		return TemplateKey
	case strings.HasPrefix(name, methodPrefix):
		return MethodKey
	default:
		return ""
	}
}

// looksLike names what an object may be meant to be; empty: the object is not part of this configuration.
func looksLike(name string, data map[string]string) string {
	plain := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	for _, prefix := range slices.Sorted(maps.Keys(drafts)) {
		if strings.HasPrefix(plain, prefix) {
			return drafts[prefix]
		}
	}
	for _, own := range ours {
		for n := len(own) - 2; n <= len(own)+2; n++ {
			if n <= len(plain) && distance(plain[:n], own) <= 2 {
				return own + map[bool]string{true: "..."}[strings.HasSuffix(own, "-")]
			}
		}
	}
	for key, text := range data {
		for own, as := range map[string]string{ConfigKey: nodePrefix + "NODE", MethodKey: methodPrefix + "METHOD-NODE", TemplateKey: templatePrefix + "NAME"} {
			if distance(strings.ToLower(key), own) <= 2 && speaks(text) {
				return as
			}
		}
		if speaks(key + "=") {
			return nodePrefix + "NODE, " + methodPrefix + "METHOD-NODE or " + templatePrefix + "NAME, with a text under one key"
		}
	}
	return ""
}

// speaks reports whether a text has a line whose key is one of our keys, or nearly one.
func speaks(text string) bool {
	for line := range strings.Lines(text) {
		key, _, is := strings.Cut(line, "=")
		key = strings.TrimRight(strings.ReplaceAll(strings.TrimSpace(strings.ToLower(key)), "-", "_"), "0123456789")
		if is && slices.ContainsFunc(words, func(w string) bool { return distance(key, w) <= 1 }) {
			return true
		}
	}
	return false
}

// isNear reports whether a word may be a misspelling of another. Short words resemble too many others.
func isNear(a, b string) bool {
	switch n := min(len(a), len(b)); {
	case n < 3:
		return false
	case n < 6:
		return distance(a, b) <= 1
	default:
		return distance(a, b) <= 2
	}
}

// distance returns the number of letters that have to be inserted, removed, changed or swapped to turn one word into
// the other.
func distance(a, b string) int {
	if d := len(a) - len(b); d > 3 || d < -3 { // no caller needs a greater distance
		return cmp.Compare(d, 0) * d
	}
	before, last, row := []int(nil), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, make([]int, len(b)+1)
	}
	return last[len(b)]
}
