package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// A parser is a value that reads its own YAML node. It returns what is allowed, for a node that is something else.
type parser interface {
	parse(n *yaml.Node) (allowed string, ok bool)
}

// decode stores the node's value in v. constraint is the tag of the struct field that
// v, or the list around v, belongs to.
func (r *report) decode(path string, n *yaml.Node, v reflect.Value, constraint reflect.StructTag) {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.refuse(path, "anchors and aliases are not supported", "", "the value written out")
		return
	case isNull(n):
		if !isSection(v.Type()) {
			r.refuse(path, "has no value", "", "a value; leave out the key for its default")
		}
		return
	}
	if v.Kind() == reflect.Pointer {
		p := reflect.New(v.Type().Elem())
		r.decode(path, n, p.Elem(), constraint)
		if !r.refused[path] {
			v.Set(p)
		}
		return
	}
	if p, ok := v.Addr().Interface().(parser); ok {
		if allowed, ok := p.parse(n); !ok {
			r.refuse(path, "is not possible", found(n), allowed)
		}
		return
	}
	if handled := r.decodeKnown(path, n, v, constraint); handled {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		r.decodeStruct(path, n, v)
	case reflect.Slice:
		r.decodeSlice(path, n, v, constraint)
	case reflect.Map:
		r.decodeMap(path, n, v, constraint)
	default:
		panic("config: no decoder for " + v.Type().String() + " at " + path)
	}
}

// decodeKnown handles the types with a syntax of their own; it reports whether v is
// one of them.
func (r *report) decodeKnown(path string, n *yaml.Node, v reflect.Value, constraint reflect.StructTag) bool {
	switch p := v.Addr().Interface().(type) {
	case *time.Duration:
		r.decodeDuration(path, n, p, constraint)
	case *netip.Addr:
		decodeText(r, path, n, p, parseAddress, "one IP address without zone, such as 10.0.0.1")
	case *int:
		r.decodeInt(path, n, p, constraint)
	case *bool:
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Decode(p) != nil {
			r.refuse(path, "is not a boolean", found(n), "true or false")
		}
	default:
		if v.Kind() != reflect.String {
			return false
		}
		r.decodeString(path, n, v, constraint)
	}
	return true
}

func (r *report) decodeString(path string, n *yaml.Node, v reflect.Value, constraint reflect.StructTag) {
	if e, ok := v.Interface().(enum); ok {
		if n.Kind != yaml.ScalarNode || !slices.Contains(e.values(), n.Value) {
			r.refuse(path, "is not a choice", found(n), strings.Join(e.values(), ", ")+meant(n, e.values()))
			return
		}
		v.SetString(n.Value)
		return
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		allowed := "a string"
		if n.Kind == yaml.ScalarNode {
			allowed = "a string; put it in quotes"
		}
		r.refuse(path, "is not a string", found(n), allowed)
		return
	}
	v.SetString(n.Value)
	r.checkForm(path, n.Value, constraint.Get("form"))
}

// checkForm refuses a string that is not of the named form.
func (r *report) checkForm(path, value, name string) {
	if f := forms[name]; f.valid != nil && !f.valid(value) {
		r.refuse(path, "is not usable", shown(value), f.allowed)
	}
}

func (r *report) decodeDuration(path string, n *yaml.Node, to *time.Duration, constraint reflect.StructTag) {
	allowed := constraint.Get("range")
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		r.refuse(path, "is not a duration", found(n), allowed+", with a unit (ms, s, m or h)")
		return
	}
	low, high := bounds(allowed, time.ParseDuration)
	if d < low || d > high {
		r.refuse(path, "is out of range", found(n), allowed)
		return
	}
	*to = d
}

func (r *report) decodeInt(path string, n *yaml.Node, to *int, constraint reflect.StructTag) {
	allowed := constraint.Get("range")
	i, ok := parseInt(n)
	if !ok {
		r.refuse(path, "is not a whole number", found(n), allowed)
		return
	}
	if low, high := bounds(allowed, strconv.Atoi); i < low || i > high {
		r.refuse(path, "is out of range", found(n), allowed)
		return
	}
	*to = i
}

func parseInt(n *yaml.Node) (int, bool) {
	var i int
	ok := n.Kind == yaml.ScalarNode && n.Tag == "!!int" && n.Decode(&i) == nil
	return i, ok
}

// bounds splits a range tag. The tags are constants, checked by a test.
func bounds[T any](tag string, parse func(string) (T, error)) (low, high T) {
	from, to, _ := strings.Cut(tag, "..")
	low, err := parse(from)
	if err == nil {
		high, err = parse(to)
	}
	if err != nil {
		panic("config: range " + strconv.Quote(tag) + ": " + err.Error())
	}
	return low, high
}

func decodeText[T any](r *report, path string, n *yaml.Node, to *T, parse func(string) (T, bool), allowed string) {
	value, ok := parse(n.Value)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || !ok {
		r.refuse(path, "is not usable", found(n), allowed)
		return
	}
	*to = value
}

func (r *report) decodeSlice(path string, n *yaml.Node, v reflect.Value, constraint reflect.StructTag) {
	if n.Kind != yaml.SequenceNode {
		r.refuse(path, "is not a list", found(n), "a list, [] for an empty one")
		return
	}
	if len(n.Content) == 0 {
		v.SetZero()
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		at := element(path, i)
		r.lines[at] = item.Line
		to := list.Index(i)
		if d, ok := to.Addr().Interface().(interface{ setDefaults() }); ok {
			d.setDefaults()
		}
		r.decode(at, item, to, constraint)
	}
	v.Set(list)
}

func (r *report) decodeMap(path string, n *yaml.Node, v reflect.Value, constraint reflect.StructTag) {
	m := reflect.MakeMap(v.Type())
	r.eachKey(path, n, "a mapping", func(key string, value *yaml.Node) {
		to := reflect.New(v.Type().Elem()).Elem()
		r.decode(child(path, key), value, to, constraint)
		m.SetMapIndex(reflect.ValueOf(key), to)
	})
	v.Set(m)
}

func (r *report) decodeStruct(path string, n *yaml.Node, v reflect.Value) {
	fields := fieldsOf(v.Type())
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.key
	}
	r.eachKey(path, n, "a mapping with keys of "+strings.Join(names, ", "), func(key string, value *yaml.Node) {
		if i := slices.Index(names, key); i >= 0 {
			r.decode(child(path, key), value, v.FieldByIndex(fields[i].index), fields[i].tag)
			return
		}
		r.unknownKey(path, key, value, names)
	})
}

// eachKey calls use once for each key of a mapping, and refuses what must not be in a mapping.
func (r *report) eachKey(path string, n *yaml.Node, allowed string, use func(key string, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.refuse(path, "is not a mapping", found(n), allowed)
		return
	}
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, value := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" || k.Anchor != "" {
			r.add(Problem{Path: path, Line: k.Line, What: "has a key that is not a plain word", Found: found(k), Allowed: allowed})
			continue
		}
		at := child(path, k.Value)
		if first := seen[k.Value]; first > 0 {
			r.add(Problem{Path: at, Line: k.Line, What: fmt.Sprintf("is given twice, first in line %d", first), Allowed: "one of them"})
			continue
		}
		seen[k.Value] = k.Line
		r.lines[at] = k.Line
		use(k.Value, value)
	}
}

// add appends a problem whose line is known.
func (r *report) add(p Problem) { r.problems = append(r.problems, p) }

// elsewhere has, for settings of other programs and documents, in lower case, what this agent has instead.
var elsewhere = map[string]string{
	"lastmanstanding":   "remove it, no version supported it",
	"adaptivethreshold": "memberlist has no threshold of this kind; experimental.evidenceMaxAge is how long a silent peer counts, and timing how fast it is missed",
	"lifeguardenabled":  "the key is experimental.lifeguard",
	"suspiciontimeout":  "the value follows from experimental.suspicionMult and probeInterval, and fencectl config check prints how long memberlist takes with it",
	"equalsplit":        "quorum.tieBreak says what decides; with a LUN the LUN does, unless it is kubernetes",
	"arbitrate":         "only an equal split is arbitrated; without a majority in any part all stop, but lun.hold and lun.mode: or keep nodes alive that reach the LUN",
	"k8scheckinterval":  "the key is experimental.checkInterval",
	"watchdoginterval":  "the default follows from timing and watchdog.timeout, and experimental.feedInterval sets another value",
	"watchdogdevice":    "the key is watchdog.device",
	"grpcsocketpath":    "the keys are api.socket and api.moreSockets",
	"countsuspects":     "a suspect counts until the evidence of it has run out (experimental.evidenceMaxAge)",
}

// unknownKey refuses a key that the section does not have. The key that was probably meant counts as refused too, so
// that its absence is not a second problem.
func (r *report) unknownKey(path, key string, value *yaml.Node, names []string) {
	at := child(path, key)
	if r.wasKey(at, value) {
		return
	}
	if hint := elsewhere[strings.ToLower(key)]; hint != "" {
		r.refuse(at, "is not a known key: "+hint, "", "")
		return
	}
	near := nearest(key, names)
	if near != "" {
		r.refused[child(path, near)] = true
		r.refuse(at, "is not a known key, did you mean "+near+"?", "", "")
		return
	}
	allowed := strings.Join(names, ", ")
	for _, k := range Keys() {
		if k == key || strings.HasSuffix(k, "."+key) {
			allowed += " (" + k + " is a known key)"
			break
		}
	}
	r.refuse(at, "is not a known key", "", allowed)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// found says what a node is: its text, or its kind.
func found(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias"
	default:
		return shown(n.Value)
	}
}

// parse reads an interface's name, a network or an address. A value with a slash, which no interface's name has, is a
// network; a value that looks like an address is an address.
func (p *Place) parse(n *yaml.Node) (string, bool) {
	const allowed = "the name of an interface (1 to 15 characters without blanks, '/' or ':'), a network such as 10.0.0.0/24 with no bits set behind the mask, " +
		"or one IP address without zone"
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		return allowed, false
	}
	if strings.Contains(n.Value, "/") {
		cidr, ok := parsePrefix(n.Value)
		*p = Place{CIDR: cidr}
		return allowed, ok
	}
	if _, err := netip.ParseAddr(n.Value); err == nil {
		address, ok := parseAddress(n.Value)
		*p = Place{Address: address}
		return allowed, ok
	}
	*p = Place{Interface: n.Value}
	return allowed, isInterfaceName(n.Value)
}

// parse reads auto or a number of nodes; what the number may be depends on the roster.
func (s *Size) parse(n *yaml.Node) (string, bool) {
	const allowed = "auto, or a whole number of nodes"
	if n.Kind == yaml.ScalarNode && n.Value == "auto" {
		*s = 0
		return "", true
	}
	i, ok := parseInt(n)
	if !ok || i < 1 {
		return allowed, false
	}
	*s = Size(i)
	return "", true
}

// parse reads any, all or {atLeast: k}; how large k may be depends on the networks.
func (r *Reachability) parse(n *yaml.Node) (string, bool) {
	const allowed = "any, all, or {atLeast: NUMBER OF NETWORKS}"
	if n.Kind == yaml.ScalarNode && (n.Value == ReachableAny || n.Value == ReachableAll) {
		*r = Reachability{Networks: n.Value}
		return "", true
	}
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 || n.Content[0].Value != "atLeast" {
		return allowed, false
	}
	k, ok := parseInt(n.Content[1])
	if !ok || k < 1 {
		return allowed, false
	}
	*r = Reachability{AtLeast: k}
	return "", true
}
