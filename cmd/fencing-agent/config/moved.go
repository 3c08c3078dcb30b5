package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// moved is a key of earlier files, and its replacement. The refusal of such a key and [Migrate] both use the table.
type moved struct {
	old, now string            // [] stands for each element of a list; now is empty: nothing replaces it
	values   map[string]string // the new value for each old one; an empty one: the default of the new key means the same. nil: values do not change
	byHand   string            // what to write if values does not say so
}

var movedKeys = append(movedOverrides(),
	moved{old: "gossip.profile", now: "timing", values: map[string]string{}, byHand: "default for auto, fast for fast, wan for calm, adr for adr"},
	moved{old: "gossip.lifeguard", now: "experimental.lifeguard"},
	moved{old: "gossip.leftByDoubt", now: "experimental.leftByDoubt"},
	moved{old: "gossip.sources", now: "experimental.gossipSources"},
	moved{old: "members.checkInterval", now: "experimental.checkInterval"},
	moved{old: "history.megabytes", now: "experimental.historyMegabytes"},
	moved{old: "watchdog.feedInterval", now: "experimental.feedInterval"},
	moved{old: "systemNetworks[].interface", now: "systemNetworks[].at"},
	moved{old: "systemNetworks[].cidr", now: "systemNetworks[].at"},
	moved{old: "systemNetworks[].address", now: "systemNetworks[].at"},
	moved{"quorum.tieBreakers", "quorum.tieBreak", map[string]string{"[lun]": "lun", "[kubernetes]": "kubernetes", "[]": "none", "[lun, kubernetes]": "", "[kubernetes, lun]": ""}, oneTieBreak},
	moved{"kubernetes.tieBreak", "quorum.tieBreak", map[string]string{"reachability": "", "lease": "lease"}, oneTieBreak},
	moved{"lun.unavailableAtTie", "quorum.tieBreak", map[string]string{"fence": "", "kubernetes": "lun-then-kubernetes"}, oneTieBreak},
	moved{"kubernetes.watchNode", "kubernetes.node", map[string]string{"true": "", "false": "ignore"}, oneNodeUse},
	moved{"kubernetes.events", "kubernetes.node", map[string]string{"true": ""}, oneNodeUse},
	moved{"kubernetes.deaths", "kubernetes.node", map[string]string{"true": ""}, oneNodeUse},
	moved{"kubernetes.labels", "kubernetes.node", map[string]string{"false": "", "true": "label"}, oneNodeUse},
	moved{"watchdog.disablePriority", "watchdog.disableFirst", map[string]string{"[]": "", "[file, controller]": "file", "[controller, file]": "node"}, "any, file or node"},
	moved{"watchdog.sentenceAfter", "watchdog.selfFence", map[string]string{"off": "none", "false": "none"}, "quorum, and experimental.selfFenceAfter is the time"},
	moved{"watchdog.sentenceOnLUNLoss", "watchdog.selfFence", map[string]string{"false": "", "true": "quorum-or-lun"}, "quorum or quorum-or-lun"},
	moved{"watchdog.sentenceTimeout", "", map[string]string{"1s": ""}, "the agent takes the shortest of 1s to 3s that the driver takes"},
	moved{"members.controller.caFile", "members.controller.credentials", map[string]string{}, "the folder that has ca.crt and token"},
	moved{"members.controller.tokenFile", "members.controller.credentials", map[string]string{}, "the folder that has ca.crt and token"},
	moved{"api.socketMode", "", map[string]string{"0660": ""}, "the socket has mode 0660, and api.socketGroup says who may use it beside root"},
	moved{"api.confirmDead", "api.commands", map[string]string{"true": "", "false": "none"}, oneCommands},
	moved{"api.fence", "api.commands", map[string]string{"true": "", "false": "none"}, oneCommands},
	moved{"api.rootFrom", "api.commands", map[string]string{"agent": "", "anywhere": "anywhere"}, oneCommands},
)

// movedOverrides are the moved keys of the gossip parameters, which had their own section.
func movedOverrides() (all []moved) {
	for _, f := range fieldsOf(reflect.TypeFor[Overrides]()) {
		all = append(all, moved{old: "gossip.overrides." + f.key, now: Laboratory + "." + f.key})
	}
	return all
}

// The texts for new keys that replace several old ones.
const (
	oneTieBreak = "one word for quorum.tieBreakers, kubernetes.tieBreak and lun.unavailableAtTie"
	oneNodeUse  = "one word for kubernetes.watchNode, events, deaths and labels: ignore, follow, report or label"
	oneCommands = "one word for api.confirmDead, fence and rootFrom: none, root or anywhere"
)

// FormerKey reports whether earlier files had that key, or keys below it, and returns the key that replaces it, if
// there is exactly one. Lists are written with empty brackets, or without brackets.
func FormerKey(key string) (now string, ok bool) {
	plain := func(key string) string { return strings.ReplaceAll(key, "[]", "") }
	for _, m := range movedKeys {
		if plain(m.old) == plain(key) || strings.HasPrefix(plain(m.old), plain(key)+".") || strings.HasPrefix(plain(key), plain(m.old)+".") {
			return m.now, true
		}
	}
	return "", false
}

// become is the new value for a value of the old key: nil if the default, or nothing, replaces it; ok is false if a
// person has to write the new value by hand.
func (m *moved) become(value *yaml.Node) (now *yaml.Node, ok bool) {
	if m.values == nil {
		return value, !isNull(value)
	}
	text, plain := inline(value)
	word, ok := m.values[text]
	if !ok || !plain || word == "" {
		return nil, ok && plain
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: word}, true
}

// inline is a plain value, or a list of plain values, in the form of the table; ok is false for everything else, and
// for what only looks like such a value.
func inline(n *yaml.Node) (text string, ok bool) {
	switch {
	case n.Anchor != "":
	case n.Kind == yaml.SequenceNode:
		items := make([]string, len(n.Content))
		for i, item := range n.Content {
			if items[i], ok = inline(item); !ok {
				return "", false
			}
		}
		return "[" + strings.Join(items, ", ") + "]", true
	case n.Kind == yaml.ScalarNode && n.Tag == "!!bool": // it may be in capitals
		return strings.ToLower(n.Value), true
	case n.Kind == yaml.ScalarNode && !strings.ContainsAny(n.Value, "[,"):
		return n.Value, true
	}
	return "", false
}

// says describes what replaces the old key with a value; now is the new key, in the same element of a list.
func (m *moved) says(value *yaml.Node, now string) string {
	switch becomes, ok := m.become(value); {
	case now == "":
		return "is gone: " + m.byHand
	case !ok && m.byHand != "":
		return "is now " + now + ": " + m.byHand
	case ok && becomes == nil:
		return "is now " + now + ", whose default says the same"
	case ok && becomes.Kind == yaml.ScalarNode:
		return "is now " + now + ": " + shown(becomes.Value)
	}
	return "is now " + now
}

// wasKey refuses a key that earlier files had, or a section that had such keys. Its replacement counts as refused too,
// so that its absence is not a second problem.
func (r *report) wasKey(path string, value *yaml.Node) bool {
	pattern := inBrackets.ReplaceAllString(path, "[]")
	for i := range movedKeys {
		m := &movedKeys[i]
		now := strings.Replace(m.now, "[]", inBrackets.FindString(path), 1)
		switch {
		case m.old == pattern:
			r.refuse(path, m.says(value, now)+"; run fencectl config migrate "+r.name, "", "")
			r.refused[now] = true
			return true
		case strings.HasPrefix(m.old, pattern+"."):
			r.refuse(path, fmt.Sprintf("is no longer a section: %s is now %s; run fencectl config migrate %s", m.old, m.now, r.name), "", "")
			return true
		}
	}
	return false
}

// Migrated is a file with the keys of this version.
type Migrated struct {
	Text    []byte   // as it was, if nothing had to change
	Changed []string // the old keys, and what they became
	ByHand  []string // old keys that Text still has, so that an agent refuses it, and what to write
}

// former is an old key in a file.
type former struct {
	*moved
	path, to   string
	in         *yaml.Node // the mapping that has it
	key, value *yaml.Node
	becomes    *yaml.Node
}

// Migrate writes an earlier file with the keys of this version. Comments stay with their keys, and disappear with keys
// that nothing replaces; blank lines are not kept. A key without a row in the table, or with two rows that disagree,
// stays.
func Migrate(name string, data []byte) (*Migrated, error) {
	r := newReport()
	doc := r.document(data)
	if len(r.problems) > 0 {
		return nil, &Invalid{File: name, Problems: r.problems}
	}
	out := &Migrated{Text: data}
	if doc == nil {
		return out, nil
	}
	if err := doc.Decode(new(map[string]any)); err != nil { // this also finds a key that is given twice
		return nil, fmt.Errorf("read configuration %s: %w", name, err)
	}
	var olds []former
	values := map[string]*yaml.Node{}
	walk("", doc.Content[0], func(path string, in, key, value *yaml.Node) {
		values[path] = value
		for i := range movedKeys {
			if m := &movedKeys[i]; m.old == inBrackets.ReplaceAllString(path, "[]") {
				olds = append(olds, former{moved: m, path: path, to: strings.Replace(m.now, "[]", inBrackets.FindString(path), 1), in: in, key: key, value: value})
			}
		}
	})
	var move []*former
	for i := range olds {
		o := &olds[i]
		var ok bool
		if o.becomes, ok = o.become(o.value); !ok || o.becomes != nil && o.clashes(olds, values) {
			out.ByHand = append(out.ByHand, o.path+" "+o.says(o.value, o.to))
			continue
		}
		out.Changed = append(out.Changed, o.path+" "+o.says(o.value, o.to))
		move = append(move, o)
	}
	if len(move) == 0 {
		return out, nil
	}
	// Invariant: no key with an anchor that others need is removed. No agent has ever read a file with an anchor.
	if r.anchors("", doc.Content[0]); len(r.problems) > 0 {
		return nil, &Invalid{File: name, Problems: r.problems}
	}
	for _, o := range move {
		o.move(doc.Content[0])
	}
	prune(doc.Content[0])
	var err error
	out.Text, err = indented(doc)
	return out, err
}

// walk visits each key of a file, with its path and the mapping that has it.
func walk(path string, n *yaml.Node, visit func(path string, in, key, value *yaml.Node)) {
	for i, inner := range n.Content {
		switch {
		case n.Kind == yaml.SequenceNode:
			walk(element(path, i), inner, visit)
		case i%2 == 1:
			at := child(path, n.Content[i-1].Value)
			visit(at, n, n.Content[i-1], inner)
			walk(at, inner, visit)
		}
	}
}

// anchors refuses YAML anchors, and aliases of them.
func (r *report) anchors(path string, n *yaml.Node) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		r.refuse(path, "anchors and aliases are not supported", "", "the value written out")
	}
	for i, inner := range n.Content {
		switch {
		case n.Kind == yaml.SequenceNode:
			r.anchors(element(path, i), inner)
		case i%2 == 1:
			r.anchors(child(path, n.Content[i-1].Value), inner)
		}
	}
}

// clashes reports whether the new key is given already, or another old key becomes a different value of it.
func (o *former) clashes(olds []former, values map[string]*yaml.Node) bool {
	for at := parent(o.to); at != ""; at = parent(at) {
		list := strings.HasPrefix(o.to, at+"[")
		if section := values[at]; section != nil && section.Kind != yaml.MappingNode && !list && !isNull(section) {
			return true
		}
	}
	return values[o.to] != nil || slices.ContainsFunc(olds, func(other former) bool {
		theirs, ok := other.become(other.value)
		return other.to == o.to && (!ok || theirs != nil && theirs.Value != o.becomes.Value)
	})
}

// move removes the old key, or renames it if the section stays the same. Two old keys may become one.
func (o *former) move(root *yaml.Node) {
	i := slices.Index(o.in.Content, o.key)
	if o.becomes == nil {
		o.in.Content = slices.Delete(o.in.Content, i, i+2)
		return
	}
	to, name := o.in, o.to[strings.LastIndex(o.to, ".")+1:]
	if parent(o.to) != parent(o.path) {
		to = root
		for step := range strings.SplitSeq(parent(o.to), ".") {
			section := valueOf(to, step)
			if section == nil {
				section = &yaml.Node{Kind: yaml.MappingNode}
				to.Content = append(to.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: step}, section)
			} else if isNull(section) {
				*section = yaml.Node{Kind: yaml.MappingNode}
			}
			to = section
		}
	}
	o.becomes.LineComment = o.value.LineComment
	switch {
	case valueOf(to, name) != nil:
		o.in.Content = slices.Delete(o.in.Content, i, i+2)
	case to == o.in:
		o.in.Content[i+1] = o.becomes
	default:
		o.in.Content = slices.Delete(o.in.Content, i, i+2)
		to.Content = append(to.Content, o.key, o.becomes)
	}
	o.key.Value = name
}

func valueOf(section *yaml.Node, key string) *yaml.Node {
	for i := 1; i < len(section.Content); i += 2 {
		if section.Content[i-1].Value == key {
			return section.Content[i]
		}
	}
	return nil
}

// prune removes sections that are empty now.
func prune(n *yaml.Node) {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); {
		value := n.Content[i+1]
		if prune(value); value.Kind == yaml.MappingNode && len(value.Content) == 0 {
			n.Content = slices.Delete(n.Content, i, i+2)
			continue
		}
		i += 2
	}
}
