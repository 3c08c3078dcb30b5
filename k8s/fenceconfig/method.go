package fenceconfig

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// Option is an option of a fence agent.
type Option struct{ Key, Value string }

// SecretRef names the Secret, in the same namespace, that has the value of an option.
type SecretRef struct{ Key, Secret, Item string }

// Method is a fence agent's action on one plug of a device, merged from its template.
type Method struct {
	Name     string // as a node's ConfigMap lists it
	Object   string // its ConfigMap
	Template string // the ConfigMap of its template

	Agent       string
	Action      string
	MustSuccess bool
	// Confirm makes the executor ask for the status after off; only off is then a success. Without it nothing is
	// proven.
	Confirm bool
	Options []Option // sorted, without the action
	Secrets []SecretRef
	// HostDevices is true if the agent works on devices of the machine on which it runs.
	HostDevices bool
	Storage     Storage // what an off of isolation cuts the node off from; other methods have none
}

// supply identifies a plug: the device and its outlet.
func (m Method) supply() string {
	return m.Agent + "\x00" + m.address() + "\x00" + m.option("ipport") + "\x00" + cmp.Or(m.option("plug"), m.option("port"))
}

func (m Method) address() string { return cmp.Or(m.option("ip"), m.option("ipaddr")) }

func (m Method) option(key string) string {
	for _, o := range m.Options {
		if o.Key == key {
			return o.Value
		}
	}
	return ""
}

// method reads a method that a node lists.
func (r *reader) method(line int, name, node string, objects Objects, agents Agents, used map[string]bool) Method {
	object := methodPrefix + name + "-" + node
	if !isName(object) {
		r.add(line, "%q cannot be a part of the name of a ConfigMap", name)
		return Method{Name: name}
	}
	used[object] = true
	data, there := objects[object]
	text, given := data[MethodKey]
	if !there || !given {
		r.add(line, "the node lists method %s, but there is no ConfigMap %s with the key %s", name, object, MethodKey)
		return Method{Name: name, Object: object}
	}
	template := TemplateOf(text)
	if template == "" {
		r.problems = append(r.problems, Problem{object, 0, "template is not given: it has to name the ConfigMap of a template", false, false})
	}
	used[template] = true
	templateText, ok := objects[template][TemplateKey]
	if template != "" && !ok {
		r.problems = append(r.problems, Problem{object, 0, fmt.Sprintf("there is no ConfigMap %s with the key %s", template, TemplateKey), false, false})
	}
	if template != "" && !strings.HasPrefix(template, templatePrefix) {
		r.problems = append(r.problems, Problem{object, 0, "the name of a template's ConfigMap begins with " + templatePrefix, false, false})
	}
	m, problems := Merge(object, text, template, templateText)
	m.Name = name
	r.problems = append(r.problems, problems...)
	r.problems = append(r.problems, agents.check(m)...)
	return m
}

// isName reports whether a ConfigMap can have this name.
func isName(s string) bool {
	return s != "" && len(s) <= 253 && strings.IndexFunc(s, func(r rune) bool {
		return r != '-' && r != '.' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}) < 0 && strings.Trim(s, "-.") == s
}

// TemplateOf returns the ConfigMap that a method's text names as its template.
func TemplateOf(text string) string {
	template, _ := newReader("", text).take("template")
	return template
}

// Merge creates a method from its text and that of its template: the method overrides the template. An option and the
// reference to a Secret for that option count as the same key.
func Merge(object, text, template, templateText string) (Method, []Problem) {
	own, base := newReader(object, text), newReader(template, templateText)
	m := Method{Object: object, Template: template}
	own.take("template")
	base.take("name") // for people
	m.Agent = either(own, base, "agent_name")
	if m.Agent == "" && templateText != "" {
		base.add(0, "agent_name is not given: it has to name a fence agent, such as fence_ipmilan")
	} else if m.Agent != "" && (!strings.HasPrefix(m.Agent, "fence_") || !isWord(m.Agent)) {
		base.add(0, "agent_name is %q; allowed: the name of a fence agent, fence_...", m.Agent)
	}
	m.action(own, base)
	m.MustSuccess = yes(own, base, "must_success", "yes", "no")
	m.Confirm = yes(own, base, "confirm", "status", "none")
	m.HostDevices = !yes(own, base, "host_devices", "no", "yes")
	storage := readStorage(own, base)
	merged := map[string]bool{}
	for _, r := range []*reader{own, base} {
		mine := map[string]bool{}
		for _, p := range r.left {
			key, secret := strings.CutSuffix(p.key, "_secret")
			switch {
			case mine[key]:
				r.add(p.line, "both %s and %s_secret are given: remove one of them", key, key)
			case merged[key]: // the method overrides the template
			case key == "nodename" || key == "verbose" || key == "debug" || key == "debug_file" || key == "password_script" || key == "passwd_script":
				r.add(p.line, "%s may not be given: the executor decides it, or it would show secrets or run programs", key)
			case key == "missing_as_off":
				r.add(p.line, "%s may not be given: a plug that is not there would be a proof that the node is off", key)
			case secret:
				m.secret(r, p, key)
			default:
				m.set(r, p)
			}
			mine[key] = true
		}
		for key := range mine {
			merged[key] = true
		}
	}
	slices.SortFunc(m.Options, func(a, b Option) int { return strings.Compare(a.Key, b.Key) })
	slices.SortFunc(m.Secrets, func(a, b SecretRef) int { return strings.Compare(a.Key, b.Key) })
	m.storage(own, storage)
	return m, append(own.problems, base.problems...)
}

// action returns the method's action, or else the template's. There is no default: an agent's own default is to reboot.
func (m *Method) action(own, base *reader) {
	v, line := own.take("action")
	from := own
	if line == 0 {
		v, line = base.take("action")
		from = base
	} else {
		base.take("action")
	}
	switch {
	case line == 0:
		own.add(0, "action is not given; allowed: on, off. A fence agent's own default is to reboot, or to switch off")
	case v != On && v != Off:
		from.add(line, "action is %q; allowed: on, off", v)
	}
	m.Action = v
}

// either returns the method's value, or the template's.
func either(own, base *reader, key string) string {
	v, line := own.take(key)
	if w, _ := base.take(key); line == 0 {
		return w
	}
	return v
}

// yes reads a key that has one of two values, of which the first is the default.
func yes(own, base *reader, key, word, other string) bool {
	if slices.ContainsFunc(own.left, func(p property) bool { return p.key == key }) {
		base.take(key)
		return own.choice(key, word, other) == word
	}
	return base.choice(key, word, other) == word
}

func (m *Method) set(r *reader, p property) {
	if IsSecret(p.key) {
		r.warn(p.line, "%s is in a ConfigMap, which many may read: put it into a Secret, and write %s_secret=SECRET/KEY", p.key, p.key)
	}
	if len(p.value) > 1 && strings.HasPrefix(p.value, `"`) && strings.HasSuffix(p.value, `"`) {
		r.add(p.line, "the value of %s is in quotes, which fence agents remove: remove the quotes", p.key)
	}
	if strings.ContainsFunc(p.value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		r.add(p.line, "the value of %s contains a control character", p.key)
	}
	m.where(r, p)
	m.Options = append(m.Options, Option{p.key, p.value})
}

func (m *Method) secret(r *reader, p property, key string) {
	name, item, ok := strings.Cut(p.value, "/")
	if !ok || !isName(name) || !isItem(item) {
		r.add(p.line, "%s does not name a key of a Secret; allowed: SECRET/KEY", p.key) // the value is not shown, as it may be a password
		return
	}
	m.Secrets = append(m.Secrets, SecretRef{key, name, item})
}

// isItem reports whether a Secret can have this key, which becomes the name of a file.
func isItem(s string) bool {
	return s != "" && s != "." && !strings.HasPrefix(s, "..") && strings.IndexFunc(s, func(r rune) bool {
		return r != '-' && r != '.' && r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) < 0
}

// IsSecret reports whether the value of an option must not be shown.
func IsSecret(key string) bool {
	key = strings.ToLower(strings.ReplaceAll(key, "-", "_"))
	for _, part := range []string{"passw", "secret", "token", "community", "hexadecimal_kg", "private_key", "api_key", "access_key"} {
		if strings.Contains(key, part) {
			return true
		}
	}
	return false
}

// Digest identifies the final method, without its secrets. The executor refuses to run a method that was not planned.
func (m Method) Digest() string {
	h := fnv.New64a()
	for _, s := range []string{m.Agent, m.Action, fmt.Sprint(m.MustSuccess, m.Confirm, m.HostDevices, m.Storage)} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	for _, o := range m.Options {
		if IsSecret(o.Key) {
			o.Value = ""
		}
		fmt.Fprintf(h, "%d:%s%d:%s", len(o.Key), o.Key, len(o.Value), o.Value)
	}
	for _, s := range m.Secrets {
		fmt.Fprintf(h, "%d:%s%d:%s%d:%s", len(s.Key), s.Key, len(s.Secret), s.Secret, len(s.Item), s.Item)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// Methods returns all methods of a node, each once, in the order in which its ConfigMap lists them.
func (n *Node) Methods() []Method {
	var all []Method
	for _, m := range slices.Concat(n.Isolation, n.Power, n.Recovery) {
		if !slices.ContainsFunc(all, func(o Method) bool { return o.Object == m.Object }) {
			all = append(all, m)
		}
	}
	return all
}

// DigestOf returns the [Method.Digest] of several methods.
func DigestOf(methods []Method) string {
	h := fnv.New64a()
	for _, m := range methods {
		fmt.Fprintf(h, "%s", m.Digest())
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
