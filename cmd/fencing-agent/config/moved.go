package config

import (
	"fmt"
	"path/filepath"
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
	gone string // why nothing stands in their place
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
		{[]string{"gossip.profile"}, carryProfile},
		{[]string{"gossip.overrides"}, carryOverrides},
		same("gossip.lifeguard", "experimental.lifeguard", "true"),
		same("gossip.leftByDoubt", "experimental.leftByDoubt", "true"),
		{[]string{"quorum.tieBreakers", "kubernetes.tieBreak", "lun.unavailableAtTie"}, carryTieBreak},
		{[]string{"kubernetes.watchNode", "kubernetes.events", "kubernetes.deaths", "kubernetes.labels"}, carryNode},
		{[]string{"watchdog.disablePriority"}, carryDisableFirst},
		same("gossip.sources", "experimental.gossipSources", "members"),
		same("members.checkInterval", "experimental.checkInterval", "5m"),
		same("history.megabytes", "experimental.historyMegabytes", "4"),
		{[]string{"members.controller.caFile", "members.controller.tokenFile"}, carryCredentials},
		{[]string{"api.socketMode"}, carrySocketMode},
		{[]string{"api.confirmDead", "api.fence", "api.rootFrom"}, carryCommands},
		{[]string{"watchdog.sentenceAfter", "watchdog.sentenceTimeout", "watchdog.sentenceOnLUNLoss"}, carrySelfFence},
		{[]string{"watchdog.feedInterval"}, carryFeedInterval},
		{[]string{"systemNetworks[].interface", "systemNetworks[].cidr", "systemNetworks[].address"}, carryPlace},
	}
}

// FormerKey reports whether files of before had that key, or keys below it, and the key that stands in its place. The key of now
// is empty where that depends on the value. Lists have their brackets, without a number, or none.
func FormerKey(key string) (now string, ok bool) {
	plain := strings.NewReplacer("[]", "")
	key = plain.Replace(key)
	for _, row := range movedKeys() {
		for _, old := range row.old {
			if old = plain.Replace(old); key != old && !strings.HasPrefix(key, old+".") {
				continue
			}
			if c := row.carry(before{}); len(c.set) == 1 {
				now = inBrackets.ReplaceAllString(c.set[0].key, "[]")
			}
			return now, true
		}
	}
	return "", false
}

// oldWords are what was allowed at an old key that took one of a few words, or a list of such. What else a key took is checked where
// it is carried to.
var oldWords = map[string][]string{
	"gossip.profile": {"auto", "adr", "fast", "calm", "fixed"}, "gossip.lifeguard": booleans, "gossip.leftByDoubt": booleans,
	"quorum.tieBreakers": {"kubernetes", "lun"}, "kubernetes.tieBreak": {"reachability", "lease"}, "lun.unavailableAtTie": {"fence", "kubernetes"},
	"kubernetes.watchNode": booleans, "kubernetes.events": booleans, "kubernetes.deaths": booleans, "kubernetes.labels": booleans,
	"watchdog.disablePriority": {"file", "controller"}, "watchdog.sentenceOnLUNLoss": booleans,
	"api.confirmDead": booleans, "api.fence": booleans, "api.rootFrom": {"agent", "anywhere"},
}

var booleans = []string{"true", "false"}

// same is a row of a key that has another name, and no other meaning.
func same(old, now, byDefault string) moved {
	return moved{[]string{old}, func(b before) carried {
		if b.text(old, "") == byDefault {
			return carried{set: []setting{{key: now}}}
		}
		return carried{set: []setting{{key: now, value: b.at(old)}}}
	}}
}

// to is one new key with a word as its value; the default is left out.
func to(key, value, unlessDefault string) carried {
	if value == unlessDefault {
		return carried{set: []setting{{key: key}}}
	}
	return carried{set: []setting{{key: key, value: word(value)}}}
}

func word(value string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: value} }

// carryTieBreak: the list was a set; without it kubernetes and lun were in it.
func carryTieBreak(b before) carried {
	has := map[string]bool{"kubernetes": true, "lun": true}
	if list := b.at("quorum.tieBreakers"); list != nil && list.Kind == yaml.SequenceNode {
		clear(has)
		for _, n := range list.Content {
			has[n.Value] = true
		}
	}
	says := TieBreakAuto
	switch kubernetes, lun := has["kubernetes"], has["lun"]; {
	case kubernetes && b.text("kubernetes.tieBreak", "") == "lease":
		says = TieBreakLease
	case kubernetes && lun && b.text("lun.unavailableAtTie", "") == "kubernetes":
		if devices := b.at("lun.devices"); devices != nil && len(devices.Content) > 0 { // it had no effect without
			says = TieBreakLUNThen
		}
	case kubernetes && lun:
	case kubernetes:
		says = TieBreakAPI
	case lun:
		says = TieBreakLUN
	default:
		says = TieBreakNone
	}
	return to("quorum.tieBreak", string(says), string(TieBreakAuto))
}

// carryNode: who said nothing of deaths says nothing now; who created no Events may keep them off by what the ServiceAccount may do.
func carryNode(b before) carried {
	says := func(key, byDefault string) bool { return b.text("kubernetes."+key, byDefault) == "true" }
	watch, events, deaths, labels := says("watchNode", "true"), says("events", "true"), says("deaths", "true"), says("labels", "false")
	use, lost := NodeReport, ""
	switch {
	case !watch:
		use = NodeIgnore
	case !deaths:
		use = NodeFollow
		if events || labels {
			lost = "kubernetes.deaths is false, and Events and labels are not written without: kubernetes.node: report does all of it but the labels"
		}
	case labels:
		use = NodeLabel
	}
	if use != NodeIgnore && deaths && !events {
		lost = "kubernetes.events is false, and kubernetes.node: " + string(use) + " creates Events: forbid them to the ServiceAccount, and the agent goes on without"
	}
	c := to("kubernetes.node", string(use), string(NodeReport))
	c.lost = lost
	return c
}

func carryDisableFirst(b before) carried {
	first := DisableAny
	if list := b.at("watchdog.disablePriority"); list != nil && len(list.Content) > 0 {
		first = DisableNode
		if list.Content[0].Value == "file" {
			first = DisableFile
		}
	}
	return to("watchdog.disableFirst", string(first), string(DisableAny))
}

// carryCredentials: the two files have to be in one folder, under the names that a pod has them by.
func carryCredentials(b before) carried {
	ca := b.text("members.controller.caFile", "/etc/fencing-agent/controller/ca.crt")
	token := b.text("members.controller.tokenFile", "/var/run/secrets/fencing-controller/token")
	folder := filepath.Dir(token)
	c := to("members.controller.credentials", folder, Default().Members.Controller.Credentials)
	now := Controller{Credentials: folder}
	if ca != now.CAFile() || token != now.TokenFile() {
		c.lost = fmt.Sprintf("the agent reads the CA from %s and the token from %s: put %s and %s there", now.CAFile(), now.TokenFile(), ca, token)
	}
	return c
}

func carrySocketMode(b before) carried {
	c := carried{gone: "the socket has mode 0660, and api.socketGroup says who may use it beside root"}
	if mode := b.text("api.socketMode", "0660"); mode != "0660" {
		c.lost = "api.socketMode: " + mode + ": " + c.gone
	}
	return c
}

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

// carryPlace: with more than one of them the agent did not start.
func carryPlace(b before) carried {
	for _, old := range []string{"interface", "cidr", "address"} {
		if n := b.at("systemNetworks[]." + old); n != nil {
			return carried{set: []setting{{key: "systemNetworks[].at", value: n}}}
		}
	}
	return carried{set: []setting{{key: "systemNetworks[].at"}}}
}

func carryFeedInterval(b before) carried {
	const key = "experimental.feedInterval"
	if means(b.text("watchdog.feedInterval", ""), b.derived().Watchdog.FeedInterval) {
		return carried{set: []setting{{key: key}}}
	}
	return carried{set: []setting{{key: key, value: b.at("watchdog.feedInterval")}}}
}

// timings are that of the old file, and that of the new one, which has the gossip parameters of gossip.profile. The profile
// fixed had none: all of them are given.
func (b before) timings() (old, now Timing) {
	old = Timing(b.text("timing", string(TimingDefault)))
	profile := b.text("gossip.profile", "fixed")
	if profile == "fixed" || profile == string(old.profile()) {
		return old, old
	}
	for _, now := range []Timing{TimingDefault, TimingFast, TimingWAN, TimingADR} {
		if string(now.profile()) == profile {
			return old, now
		}
	}
	return old, old // the old file was refused
}

// carryProfile: what the old timing set and the new one does not is written out.
func carryProfile(b before) carried {
	old, now := b.timings()
	if old == now {
		return carried{gone: "timing: " + string(now) + " says the same"}
	}
	c := carried{set: []setting{{key: "timing", value: word(string(now)), replaces: true}}}
	was, is := ForTiming(old, 1), b.derived()
	write := func(key string, was, is time.Duration) {
		if was != is {
			c.set = append(c.set, setting{key: key, value: word(was.String())})
		}
	}
	if b.at("lun.heartbeatInterval") == nil {
		write("lun.heartbeatInterval", was.LUN.HeartbeatInterval, is.LUN.HeartbeatInterval)
	}
	if b.at("lun.ioTimeout") == nil {
		write("lun.ioTimeout", was.LUN.IOTimeout, is.LUN.IOTimeout)
	}
	if b.at("watchdog.timeout") == nil {
		write("watchdog.timeout", was.Watchdog.Timeout, ForTiming(now, 1).Watchdog.Timeout)
	}
	if b.at("watchdog.feedInterval") == nil {
		was.Watchdog.Timeout = is.Watchdog.Timeout
		was.applyExperimental()
		write("experimental.feedInterval", was.Watchdog.FeedInterval, is.Watchdog.FeedInterval)
	}
	if b.at("watchdog.sentenceAfter") == nil {
		write("experimental.selfFenceAfter", was.Watchdog.SentenceAfter, is.Watchdog.SentenceAfter)
	}
	return c
}

func carryOverrides(b before) carried {
	value := b.at("gossip.overrides")
	if value == nil || value.Kind != yaml.MappingNode || len(value.Content) == 0 {
		return carried{gone: "it was empty"}
	}
	return carried{set: []setting{{key: Laboratory, value: value}}}
}

// derived is what the new file would have without the old keys that are carried to experimental.
func (b before) derived() *Config {
	old, now := b.timings()
	c := ForTiming(now, 1)
	c.Watchdog.Timeout = ForTiming(old, 1).Watchdog.Timeout
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
func (c carried) says(b before) string {
	var parts []string
	for _, s := range c.set {
		if s.value == nil {
			parts = append(parts, b.path(s.key)+", whose default says the same")
			continue
		}
		parts = append(parts, b.path(s.key)+": "+shown(inline(s.value)))
	}
	if len(parts) == 0 {
		return "is gone: " + c.gone
	}
	return "is now " + strings.Join(parts, ", ")
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
