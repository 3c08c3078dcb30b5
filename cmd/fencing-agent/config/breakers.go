package config

import (
	"slices"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Breaker has a say in an equal split: [Config.TieBreakers] says which one decides.
type Breaker string

// The tie-breakers.
const (
	BreakerKubernetes Breaker = "kubernetes"
	BreakerLUN        Breaker = "lun"
)

// breaker is a value of quorum.tieBreakers, with all that is asked about it where only one of them is in question.
type breaker struct {
	value   Breaker
	answers func(*Config) bool                     // it can be asked at all
	terms   func(*Config) netgossip.Breakers       // what the node states where it decides
	text    func(*Config) string                   // the same for the operator
	check   func(c *Config, r *report, key string) // what is wrong with listing it, at that key
}

// breakers are all values of quorum.tieBreakers. Of several that are listed and can answer the first one here decides.
func breakers() []breaker {
	return []breaker{
		{BreakerLUN, func(c *Config) bool { return len(c.LUN.Devices) > 0 }, lunTerms, lunText, checkLUNListed},
		{BreakerKubernetes, (*Config).UsesKubernetes, apiTerms, apiText, checkAPIListed},
	}
}

// Breakers lists the values of quorum.tieBreakers.
func Breakers() []Breaker {
	var all []Breaker
	for _, b := range breakers() {
		all = append(all, b.value)
	}
	slices.Sort(all)
	return all
}

func (Breaker) values() (all []string) {
	for _, b := range Breakers() {
		all = append(all, string(b))
	}
	return all
}

// TieBreakers returns the breakers that can answer: kubernetes needs a kubeconfig or the
// in-cluster API, lun needs a device. They are a set, in the order of the file. Where lun is one
// of them it decides, and kubernetes says which half goes first; it decides as well where the
// LUN cannot be read and lun.unavailableAtTie is kubernetes.
func (c *Config) TieBreakers() []Breaker {
	return slices.DeleteFunc(slices.Clone(c.Quorum.TieBreakers), func(value Breaker) bool {
		return !slices.ContainsFunc(breakers(), func(b breaker) bool { return b.value == value && b.answers(c) })
	})
}

// BreaksTiesBy reports whether a tie-breaker is listed and can answer.
func (c *Config) BreaksTiesBy(b Breaker) bool { return slices.Contains(c.TieBreakers(), b) }

// decides is the tie-breaker that decides; ok is false if there is none.
func (c *Config) decides() (b breaker, ok bool) {
	all := breakers()
	i := slices.IndexFunc(all, func(b breaker) bool { return c.BreaksTiesBy(b.value) })
	if i < 0 {
		return b, false
	}
	return all[i], true
}

// Terms says by what ties are broken. That the API server goes first where the LUN decides does
// not count: it says which half asks first, and not what decides.
func (c *Config) Terms() netgossip.Breakers {
	if b, ok := c.decides(); ok {
		return b.terms(c)
	}
	return netgossip.BreaksByNothing
}

// TieBreakText says what decides an equal split, and what the other tie-breaker is for. The
// order in the file has no effect, so it does not show.
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
	return c.BreaksTiesBy(BreakerKubernetes) && c.LUN.UnavailableAtTie == AtTieKubernetes
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

func checkLUNListed(c *Config, r *report, key string) {
	if len(c.LUN.Devices) == 0 && r.intact("lun.devices") {
		r.problem(key, "is listed but lun.devices is empty", nil, "a device, or a list without lun")
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

func checkAPIListed(c *Config, r *report, key string) {
	if c.Members.Source == SourceController && r.given("quorum.tieBreakers") {
		r.problem(key, "needs an API server, and with members.source: controller the agent talks to none; that the controller answers says nothing about this half",
			BreakerKubernetes, "lun, or a list without kubernetes")
		return
	}
	if r.given("quorum.tieBreakers") && !c.UsesKubernetes() && r.intact("kubernetes", "kubernetes.kubeconfig") {
		r.warn(key, "is left out: there is neither kubernetes.kubeconfig nor a pod around the agent", BreakerKubernetes)
	}
}
