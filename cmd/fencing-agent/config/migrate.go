package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// before is a file as it was. It answers for the keys of a row of the table, in one element of a list if they are in one.
type before struct {
	root  *yaml.Node
	index int // in place of []
}

// at is the value of a key; nil: the file does not have it.
func (b before) at(path string) *yaml.Node {
	_, _, value := find(b.root, b.path(path))
	return value
}

// path names the element of the list.
func (b before) path(pattern string) string {
	return strings.Replace(pattern, "[]", "["+strconv.Itoa(b.index)+"]", 1)
}

// text is a plain value, or what it is without the key.
func (b before) text(path, otherwise string) string {
	if n := b.at(path); n != nil && n.Kind == yaml.ScalarNode {
		return plain(n)
	}
	return otherwise
}

// plain is a scalar's text. A boolean may be in capitals.
func plain(n *yaml.Node) string {
	if n.Tag == "!!bool" {
		return strings.ToLower(n.Value)
	}
	return n.Value
}

// Migrated is a file with the keys of this version.
type Migrated struct {
	Text    []byte // as it was, if nothing had to change
	Changed []string
	Lost    []string // what could not be carried over
}

// Migrate writes a file of before with the keys of this version. Comments stay where their keys stay, and go with those
// that are replaced; blank lines are not kept. A file without old keys is returned as it is.
func Migrate(data []byte) (*Migrated, error) {
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return &Migrated{Text: data}, nil
	} else if err != nil {
		return nil, fmt.Errorf("is not YAML: %w", err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("has a second document, or text after the first that is no YAML")
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("is not a mapping")
	}
	m, root := &Migrated{Text: data}, doc.Content[0]
	if at := twice("", root); at != "" {
		return nil, fmt.Errorf("%s is given twice", at)
	}
	type edit struct {
		b   before
		row moved
		c   carried
	}
	var edits []edit
	for _, row := range movedKeys() {
		for _, b := range row.in(root) {
			if err := row.refuses(b); err != nil {
				return nil, err
			}
			edits = append(edits, edit{b, row, row.carry(b)}) // all see the file as it was
		}
	}
	if len(edits) == 0 {
		return m, nil
	}
	for _, e := range edits {
		from := origin{place: -1}
		for _, old := range e.row.old {
			if at, key, value := find(root, e.b.path(old)); key != nil {
				i := slices.Index(at.Content, key)
				at.Content = slices.Delete(at.Content, i, i+2)
				from.add(at, i, key, value)
				m.Changed = append(m.Changed, fmt.Sprintf("%s %s", e.b.path(old), e.c.says(e.b)))
			}
		}
		for _, s := range e.c.set {
			if s.value == nil {
				continue
			}
			if err := put(root, e.b.path(s.key), s, &from); err != nil {
				return nil, err
			}
		}
		from.leave()
		if e.c.lost != "" {
			m.Lost = append(m.Lost, e.c.lost)
		}
	}
	prune(root)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
		return nil, fmt.Errorf("print configuration: %w", err)
	}
	m.Text = out.Bytes()
	return m, nil
}

// in lists the places of a file that have keys of the row: the file itself, or elements of the list in their paths.
func (row moved) in(root *yaml.Node) (all []before) {
	n := 1
	if list, _, ok := strings.Cut(row.old[0], "[]"); ok {
		n = 0
		if _, _, value := find(root, list); value != nil && value.Kind == yaml.SequenceNode {
			n = len(value.Content)
		}
	}
	for i := range n {
		b := before{root, i}
		if slices.ContainsFunc(row.old, func(path string) bool { return b.at(path) != nil }) {
			all = append(all, b)
		}
	}
	return all
}

// refuses says why no agent started with what a file has at the keys of a row: it is carried to nothing that one starts with.
func (row moved) refuses(b before) error {
	given := 0
	for _, old := range row.old {
		n, at := b.at(old), b.path(old)
		if n == nil {
			continue
		}
		given++
		kind, is := yaml.ScalarNode, "a plain value"
		switch old {
		case "gossip.overrides":
			kind, is = yaml.MappingNode, "a mapping"
		case "quorum.tieBreakers", "watchdog.disablePriority":
			kind, is = yaml.SequenceNode, "a list"
		}
		switch {
		case n.Anchor != "":
			return fmt.Errorf("%s has an anchor, which is not supported", at)
		case isNull(n) && kind == yaml.MappingNode:
		case isNull(n):
			return fmt.Errorf("%s has no value", at)
		case n.Kind != kind:
			return fmt.Errorf("%s is not %s: found %s", at, is, found(n))
		case kind == yaml.ScalarNode && oldWords[old] != nil:
			if !slices.Contains(oldWords[old], plain(n)) {
				return fmt.Errorf("%s is not a choice: found %s, allowed: %s", at, found(n), strings.Join(oldWords[old], ", "))
			}
		case kind == yaml.SequenceNode:
			for i, item := range n.Content {
				if item.Kind != yaml.ScalarNode || !slices.Contains(oldWords[old], item.Value) {
					return fmt.Errorf("%s is not a choice: found %s, allowed: %s", element(at, i), found(item), strings.Join(oldWords[old], ", "))
				}
			}
			if c := n.Content; old == "watchdog.disablePriority" && len(c) > 0 && (len(c) != 2 || c[0].Value == c[1].Value) {
				return fmt.Errorf("%s does not name both sources, each once", at)
			}
		}
	}
	if list, _, ok := strings.Cut(row.old[0], "[]"); ok && given > 1 {
		return fmt.Errorf("%s says twice where the network is", element(list, b.index))
	}
	return nil
}

// twice names a key that a mapping has twice; empty: there is none.
func twice(path string, n *yaml.Node) string {
	seen := map[string]bool{}
	for i, inner := range n.Content {
		at := path
		switch {
		case n.Kind == yaml.SequenceNode:
			at = element(path, i)
		case i%2 == 0:
			if at = child(path, inner.Value); seen[inner.Value] {
				return at
			}
			seen[inner.Value] = true
		default:
			at = child(path, n.Content[i-1].Value)
		}
		if found := twice(at, inner); found != "" {
			return found
		}
	}
	return ""
}

// find looks up a path: the mapping that has its last key, that key and its value; nil if there is none.
func find(root *yaml.Node, path string) (in, key, value *yaml.Node) {
	value = root
	for step := range strings.SplitSeq(path, ".") {
		name, rest, listed := strings.Cut(step, "[")
		in, key = value, nil
		if in == nil || in.Kind != yaml.MappingNode {
			return nil, nil, nil
		}
		value = nil
		for i := 0; i+1 < len(in.Content); i += 2 {
			if in.Content[i].Value == name {
				key, value = in.Content[i], in.Content[i+1]
			}
		}
		if listed && value != nil {
			i, err := strconv.Atoi(strings.TrimSuffix(rest, "]"))
			if err != nil || value.Kind != yaml.SequenceNode || i >= len(value.Content) {
				return nil, nil, nil
			}
			value = value.Content[i]
		}
	}
	if key == nil {
		return nil, nil, nil
	}
	return in, key, value
}

// origin is where the old keys of a row stood, and what was written beside them.
type origin struct {
	in               *yaml.Node
	place            int
	head, line, foot string // what nobody has taken over
}

func (o *origin) add(in *yaml.Node, place int, key, value *yaml.Node) {
	if o.in == nil {
		o.in, o.place = in, place
	}
	join(&o.head, key.HeadComment, "\n")
	join(&o.line, strings.TrimSpace(key.LineComment+value.LineComment), " ")
	join(&o.foot, key.FootComment, "\n")
}

func join(to *string, comment, between string) {
	if *to != "" && comment != "" {
		*to += between
	}
	*to += comment
}

// leave keeps what stood behind the old keys, which may be another key that somebody has taken out, by the key beside them.
func (o *origin) leave() {
	switch {
	case o.foot == "":
	case o.place >= 2 && o.place <= len(o.in.Content):
		join(&o.in.Content[o.place-2].FootComment, o.foot, "\n")
	case o.place < len(o.in.Content):
		next := o.in.Content[o.place]
		join(&o.foot, next.HeadComment, "\n\n")
		next.HeadComment = o.foot
	}
}

// put gives a key a value, in sections that are made where they are missing. A mapping is added to one that is there. The
// comments of the old key go with it, and it stands in its place if that is in the same section.
func put(root *yaml.Node, path string, s setting, from *origin) error {
	value := s.value
	if value.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(value.Content); i += 2 {
			key, inner := value.Content[i], value.Content[i+1]
			if err := put(root, child(path, key.Value), setting{value: inner}, &origin{place: -1, head: key.HeadComment, foot: key.FootComment}); err != nil {
				return err
			}
		}
		return nil
	}
	if _, _, there := find(root, path); there != nil {
		if !s.replaces {
			return fmt.Errorf("%s is in the file already: take it out, or the old key", path)
		}
		there.Value, there.Tag, there.Style = value.Value, value.Tag, value.Style
		return nil
	}
	in := root
	steps := strings.Split(path, ".")
	for i := range steps[:len(steps)-1] {
		at := strings.Join(steps[:i+1], ".")
		_, key, section := find(root, at)
		switch {
		case key == nil:
			section = &yaml.Node{Kind: yaml.MappingNode}
			in.Content = append(in.Content, word(steps[i]), section)
		case isNull(section):
			*section = yaml.Node{Kind: yaml.MappingNode}
		case section.Kind != yaml.MappingNode:
			return fmt.Errorf("%s is not a mapping", at)
		}
		in = section
	}
	key := word(steps[len(steps)-1])
	key.HeadComment = from.head
	if value.LineComment == "" {
		value.LineComment = from.line
	}
	place := len(in.Content)
	if in == from.in && from.place <= place {
		place = from.place
		from.place += 2
	}
	if in == from.in || from.in == nil {
		key.FootComment, from.foot = from.foot, ""
	}
	from.head, from.line = "", ""
	in.Content = slices.Insert(in.Content, place, key, value)
	return nil
}

// prune takes out sections that are empty now.
func prune(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); {
		value := n.Content[i+1]
		prune(value)
		if value.Kind == yaml.MappingNode && len(value.Content) == 0 {
			n.Content = slices.Delete(n.Content, i, i+2)
			continue
		}
		i += 2
	}
}

// wasKey refuses a key that files of before had, or all such keys in a section of before, with what stands in their place. What
// does counts as refused, too: that it is missing is no second problem.
func (r *report) wasKey(path string) (known bool) {
	pattern := inBrackets.ReplaceAllString(path, "[]")
	b := before{root: r.root}
	if digits := inBrackets.FindString(path); digits != "" {
		b.index, _ = strconv.Atoi(strings.Trim(digits, "[]")) // it was made of a number
	}
	for _, row := range movedKeys() {
		for _, old := range row.old {
			if old != pattern && (!strings.HasPrefix(old, pattern+".") || b.at(old) == nil) {
				continue
			}
			known = true
			c := row.carry(b)
			for _, s := range c.set {
				r.refused[b.path(s.key)] = true
			}
			what := c.says(b) + "; run fencectl config migrate " + r.name
			if c.lost != "" {
				what += " (" + c.lost + ")"
			}
			if _, key, _ := find(r.root, b.path(old)); key != nil {
				r.lines[b.path(old)] = key.Line
			}
			r.refuse(b.path(old), what, "", "")
		}
	}
	return known
}
