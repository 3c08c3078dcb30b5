package config

import (
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// moved is a row of the table of keys that files of before had: what stands in their place. The refusal of such a key and
// [Migrate] both come from it.
type moved struct {
	old   []string // [] stands for each element of a list
	carry func(before) carried
}

// carried is what the new file says in place of the old keys of a row.
type carried struct {
	set  []setting
	lost string // what of the old values no new key can say; empty: all is carried over
}

// setting is a key of the new file with its value. One that is nil is the default, and the key is left out.
type setting struct {
	key      string
	value    *yaml.Node
	replaces bool // the key was there before as well, and has another value now
}

// movedKeys is the table.
func movedKeys() []moved {
	return []moved{
		{[]string{"api.confirmDead", "api.fence", "api.rootFrom"}, carryCommands},
		{[]string{"watchdog.sentenceAfter", "watchdog.sentenceTimeout", "watchdog.sentenceOnLUNLoss"}, carrySelfFence},
		{[]string{"watchdog.feedInterval"}, carryFeedInterval},
	}
}

// to is one new key with a word as its value; the default is left out.
func to(key, value, unlessDefault string) carried {
	if value == unlessDefault {
		return carried{set: []setting{{key: key}}}
	}
	return carried{set: []setting{{key: key, value: word(value)}}}
}

func word(value string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: value} }

// carryCommands: what no single value says becomes none, which lets nobody do more than before.
func carryCommands(b before) carried {
	tell, order := b.text("api.confirmDead", "true") == "true", b.text("api.fence", "true") == "true"
	commands := CommandsRoot
	switch {
	case !tell || !order:
		commands = CommandsNone
	case b.text("api.rootFrom", "agent") == "anywhere":
		commands = CommandsAnywhere
	}
	c := to("api.commands", string(commands), string(CommandsRoot))
	if tell != order {
		c.lost = "api.confirmDead and api.fence differ, and api.commands is for both: none of them is allowed now"
	}
	return c
}

// carrySelfFence: the shortest timeout that the driver takes needs no key any more.
func carrySelfFence(b before) carried {
	after, on := b.text("watchdog.sentenceAfter", ""), SelfFenceQuorum
	switch {
	case after == "off" || after == "false": // as Helm wrote it
		after, on = "", SelfFenceNone
	case b.text("watchdog.sentenceOnLUNLoss", "false") == "true":
		on = SelfFenceLUN
	}
	c := to("watchdog.selfFence", string(on), string(SelfFenceQuorum))
	if after != "" && !means(after, b.derived().Watchdog.SentenceAfter) {
		c.set = append(c.set, setting{key: "experimental.selfFenceAfter", value: word(after)})
	}
	if t := b.text("watchdog.sentenceTimeout", "1s"); !means(t, SentenceTimeout) {
		c.lost = "watchdog.sentenceTimeout: " + t + ": the agent takes the shortest of 1s to 3s that the driver takes"
	}
	return c
}

func carryFeedInterval(b before) carried {
	const key = "experimental.feedInterval"
	if means(b.text("watchdog.feedInterval", ""), b.derived().Watchdog.FeedInterval) {
		return carried{set: []setting{{key: key}}}
	}
	return carried{set: []setting{{key: key, value: b.at("watchdog.feedInterval")}}}
}

// derived is what the new file would have without the old keys that are carried to experimental.
func (b before) derived() *Config {
	c := Default()
	c.Timing = Timing(b.text("timing", string(c.Timing)))
	c.applyTiming(func(string) bool { return false })
	if w, err := time.ParseDuration(b.text("watchdog.timeout", "")); err == nil {
		c.Watchdog.Timeout = w
	}
	c.applyExperimental()
	return c
}

// means reports whether a text is a duration.
func means(text string, d time.Duration) bool {
	given, err := time.ParseDuration(text)
	return err == nil && given == d
}

// says prints what stands in place of the old keys, for a refusal.
func (c carried) says() string {
	var parts []string
	for _, s := range c.set {
		if s.value == nil {
			parts = append(parts, s.key+", whose default says the same")
			continue
		}
		parts = append(parts, s.key+": "+shown(inline(s.value)))
	}
	switch {
	case len(parts) == 0:
		return "is gone"
	default:
		return "is now " + strings.Join(parts, ", ")
	}
}

// inline prints a value on one line.
func inline(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	var flow func(n *yaml.Node) *yaml.Node
	flow = func(n *yaml.Node) *yaml.Node {
		out := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Value: n.Value, Style: yaml.FlowStyle}
		for _, inner := range n.Content {
			out.Content = append(out.Content, flow(inner))
		}
		return out
	}
	text, err := yaml.Marshal(flow(n))
	if err != nil {
		return "the same"
	}
	return strings.TrimSpace(string(text))
}
