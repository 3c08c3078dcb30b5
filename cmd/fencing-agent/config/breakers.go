package config

import (
	"slices"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Breaker is a possible part of the decision about an equal split: [Config.TieBreakers] lists the parts in use.
type Breaker string

const (
	BreakerKubernetes Breaker = "kubernetes"
	BreakerLUN        Breaker = "lun"
)

// breaker is a tie-breaker, with everything that depends only on this one.
type breaker struct {
	value   Breaker
	answers func(*Config) bool                     // whether it can be asked
	terms   func(*Config) netgossip.Breakers       // the node's statement if this tie-breaker decides
	text    func(*Config) string                   // the same for the operator
	check   func(c *Config, r *report, key string) // what is wrong with naming it, at that key
}

// breakers lists all tie-breakers. Of several that are configured and can answer, the first one here decides.
func breakers() []breaker {
	return []breaker{
		{BreakerLUN, func(c *Config) bool { return len(c.LUN.Devices) > 0 }, lunTerms, lunText, checkLUNNamed},
		{BreakerKubernetes, (*Config).UsesKubernetes, apiTerms, apiText, checkAPINamed},
	}
}

// Breakers lists the tie-breakers.
func Breakers() []Breaker {
	var all []Breaker
	for _, b := range breakers() {
		all = append(all, b.value)
	}
	slices.Sort(all)
	return all
}

// TieBreak says what decides an equal split.
type TieBreak string

// What decides an equal split.
const (
	TieBreakAuto    TieBreak = "auto"                // the LUN if there is one, otherwise the API server; a half that reaches the API server goes first
	TieBreakNone    TieBreak = "none"                // nothing: both halves stop
	TieBreakLUN     TieBreak = "lun"                 // the LUN alone
	TieBreakLUNThen TieBreak = "lun-then-kubernetes" // as auto, and the API server decides where the LUN cannot be read
	TieBreakAPI     TieBreak = "kubernetes"          // a half that reaches the API server lives
	TieBreakLease   TieBreak = "lease"               // a coordination.k8s.io Lease picks exactly one half
)

// tieBreaks maps the values of quorum.tieBreak to the tie-breakers that they name.
var tieBreaks = []struct {
	value TieBreak
	say   []Breaker
}{
	{TieBreakAuto, []Breaker{BreakerKubernetes, BreakerLUN}},
	{TieBreakNone, nil},
	{TieBreakLUN, []Breaker{BreakerLUN}},
	{TieBreakLUNThen, []Breaker{BreakerKubernetes, BreakerLUN}},
	{TieBreakAPI, []Breaker{BreakerKubernetes}},
	{TieBreakLease, []Breaker{BreakerKubernetes}},
}

func (TieBreak) values() (all []string) {
	for _, t := range tieBreaks {
		all = append(all, string(t.value))
	}
	return all
}

// named returns the tie-breakers that the value names, whether they can answer or not.
func (t TieBreak) named() []Breaker {
	for _, b := range tieBreaks {
		if b.value == t {
			return b.say
		}
	}
	return nil
}

// TieBreakers returns the tie-breakers that are configured and can answer: kubernetes needs a kubeconfig or the
// in-cluster API, lun needs a device. If lun is one of them, the LUN decides, and kubernetes only determines which half
// goes first. With lun-then-kubernetes, kubernetes also decides for a half that cannot read the LUN.
func (c *Config) TieBreakers() []Breaker {
	return slices.DeleteFunc(slices.Clone(c.Quorum.TieBreak.named()), func(value Breaker) bool {
		return !slices.ContainsFunc(breakers(), func(b breaker) bool { return b.value == value && b.answers(c) })
	})
}

// LUNLostAsksAPI reports whether an equal split asks the API server where the LUN cannot be read.
func (c *Config) LUNLostAsksAPI() bool { return c.Quorum.TieBreak == TieBreakLUNThen }

// BreaksTiesBy reports whether a tie-breaker is configured and can answer.
func (c *Config) BreaksTiesBy(b Breaker) bool { return slices.Contains(c.TieBreakers(), b) }

func (c *Config) lunBreaksTies() bool { return c.BreaksTiesBy(BreakerLUN) }

// decides is the tie-breaker that decides; ok is false if there is none.
func (c *Config) decides() (b breaker, ok bool) {
	all := breakers()
	i := slices.IndexFunc(all, func(b breaker) bool { return c.BreaksTiesBy(b.value) })
	if i < 0 {
		return b, false
	}
	return all[i], true
}

// Terms describes by what ties are broken. If the LUN decides, it does not matter whether the API server is asked
// before: that only determines which half goes first.
func (c *Config) Terms() netgossip.Breakers {
	if b, ok := c.decides(); ok {
		return b.terms(c)
	}
	return netgossip.BreaksByNothing
}

// TieBreakText describes what decides an equal split, and what the other tie-breaker is for.
func (c *Config) TieBreakText() string {
	if b, ok := c.decides(); ok {
		return b.text(c)
	}
	return "none: in an equal split both halves stop"
}

func lunTerms(c *Config) netgossip.Breakers {
	if c.asksAPIForLUN() {
		return netgossip.BreaksByLUN | netgossip.AsksAPI
	}
	return netgossip.BreaksByLUN
}

// asksAPIForLUN reports whether reaching the API server decides where the LUN cannot be used.
func (c *Config) asksAPIForLUN() bool {
	return c.BreaksTiesBy(BreakerKubernetes) && c.LUNLostAsksAPI()
}

func lunText(c *Config) string {
	switch {
	case c.asksAPIForLUN():
		return "lun decides; kubernetes says which half goes first, and decides where the LUN cannot be read"
	case c.BreaksTiesBy(BreakerKubernetes):
		return "lun decides; kubernetes only says which half goes first"
	default:
		return "lun: exactly one half lives"
	}
}

func checkLUNNamed(c *Config, r *report, key string) {
	if len(c.LUN.Devices) == 0 && r.intact("lun.devices") {
		r.problem(key, "names the LUN, and lun.devices is empty", c.Quorum.TieBreak, "a device, or another value")
	}
}

func apiTerms(c *Config) netgossip.Breakers {
	if c.UsesLease() {
		return netgossip.BreaksByLease
	}
	return netgossip.BreaksByAPI
}

func apiText(c *Config) string {
	if c.UsesLease() {
		return "kubernetes, by a Lease: exactly one half lives"
	}
	return "kubernetes: a node that reaches the API server lives, which may be both halves"
}

func checkAPINamed(c *Config, r *report, key string) {
	if c.Members.Source == SourceController {
		r.problem(key, "needs an API server, and with members.source: controller the agent talks to none; an answer from the controller says nothing about this half",
			c.Quorum.TieBreak, "lun, none or auto")
		return
	}
	if !c.UsesKubernetes() && r.intact("kubernetes", "kubernetes.kubeconfig") {
		r.warn(key, "cannot ask the API server: there is no kubernetes.kubeconfig, and the agent does not run in a pod", c.Quorum.TieBreak)
	}
}
