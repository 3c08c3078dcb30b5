package watchdog

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	// orderLimit is how long an order is valid. A node that has not obeyed by then no longer obeys it.
	orderLimit = 10 * time.Second
	// orderPause is the time between two nodes that obey, and how long a node that has given way to another obeys no
	// order.
	orderPause = 30 * time.Second
	// orderAsk is how long a node that is about to obey waits before it asks all for their consent: answers to earlier
	// questions do not count.
	orderAsk = letReach + 50*time.Millisecond
)

// orders holds the order that this node gives, and the one that it got. Both use node names, because lists change.
type orders struct {
	wishes []Word

	node  string // the node that has to end
	boot  uint64
	since boottime.Instant // zero: this node gives none
	ids   []uint64         // of the calls of Order

	told [2]uint64 // boots announced to all peers at once: that of the order given, and that of the order obeyed

	by    string           // the member that has ordered a fence of this node; "": none
	taken boottime.Instant // since when this node announces that it is about to obey; zero: it does not
	heard boottime.Instant // the step after taken: from here on all could hear the announcement; zero: not yet
	why   Refusal          // why it does not obey
	rest  boottime.Instant // before this, this node obeys no order
	q     question         // whether all have heard the announcement
}

// Order gives another node the order to end its present boot. The answer is in the Effects of this step or of a later
// one.
func (v *Prover) Order(id uint64, w Word) {
	w.ID = id
	v.orders.wishes = append(v.orders.wishes, w)
}

// Ordered returns the member that has ordered a fence of this node, and why this node does not obey; by is "" if there
// is no order.
func (v *Prover) Ordered() (by string, why Refusal) { return v.orders.by, v.orders.why }

// followOrders gives the orders that were requested on this node, and prepares to obey an order from another. It is
// part of the step, and uses the step's results.
func (v *Prover) followOrders(now boottime.Instant, in proverInput) *proverOutput {
	v.in = in
	o := &v.orders
	for _, w := range o.wishes {
		switch err := v.forbids(now, w.Node, w.Boot); {
		case err != nil:
			v.out.Obeyed = append(v.out.Obeyed, Answer{ID: w.ID, Err: err})
		case o.since != 0 && (o.node != w.Node || o.boot != w.Boot):
			v.out.Obeyed = append(v.out.Obeyed, Answer{ID: w.ID, Err: &Refused{Why: RefusedBusy, Node: w.Node, Other: o.node}})
		default:
			if o.since == 0 {
				o.node, o.boot, o.since = w.Node, w.Boot, now
			}
			o.ids = append(o.ids, w.ID)
		}
	}
	if o.wishes = o.wishes[:0]; o.since != 0 {
		v.pursue(now)
	}
	v.prepare(now)
	return &v.out
}

func (v *Prover) pursue(now boottime.Instant) {
	o := &v.orders
	end := func(err *Refused) {
		for _, id := range o.ids {
			v.out.Obeyed = append(v.out.Obeyed, Answer{ID: id, Err: err})
		}
		o.node, o.boot, o.since, o.ids = "", 0, 0, nil
	}
	p, member := v.roster.Index(o.node)
	switch {
	case member && v.isOver(p, o.boot):
		end(nil)
	case !member || v.in.Apart || now.Sub(o.since) >= orderLimit:
		end(&Refused{Why: RefusedDisobeyed, Node: o.node, Boot: o.boot})
	default:
		v.out.Wake = min(v.out.Wake, o.since.Add(orderLimit))
	}
}

// isOver reports whether a boot has itself announced its sentence, or is known to have ended.
func (v *Prover) isOver(p int, boot uint64) bool {
	w := &v.peers[p]
	return w.sentenced == boot && w.hearsay == 0 && w.defied != boot || w.death.Boot == boot && w.death.Proof != 0 && v.fenced.Has(p)
}

// forbids returns why this node does not give an order, as far as it can tell. The node that has to end decides itself;
// this check saves people the wait.
func (v *Prover) forbids(now boottime.Instant, node string, boot uint64) *Refused {
	p, member := v.roster.Index(node)
	if !v.cfg.Orders {
		return &Refused{Why: RefusedOff, Order: true, Node: node}
	}
	if !member || !v.lists.expected.Has(p) {
		return &Refused{Why: RefusedMember, Node: node}
	}
	known, w := v.KnownBoot(p), &v.peers[p]
	no := func(why Refusal, other string) *Refused {
		return &Refused{Why: why, Order: true, Node: node, Boot: known, Other: other}
	}
	switch {
	case p == v.roster.Self:
		return no(RefusedSelf, "")
	case !v.in.Leads: // a node that is condemned, or does not know yet whether it is, does not lead either
		return no(RefusedNoMajority, "")
	case known == 0:
		return no(RefusedUnknownBoot, "")
	case boot != known || w.unmet():
		return no(RefusedOtherBoot, "")
	case v.isOver(p, boot):
		return nil
	case w.twins || w.returned > 0:
		return no(RefusedTwins, "")
	case !v.in.View.Counted.Has(p):
		if m, sees := v.whoSees(now, p); sees {
			return no(RefusedUnreached, v.roster.Name(m))
		}
		return no(RefusedUnreached, "")
	}
	if st, _ := v.merger.Statement(p); st == nil || !kills(st) {
		return no(RefusedUnguarded, "")
	}
	if why, other := v.spares(now, p); why != 0 {
		return no(why, other)
	}
	return nil
}

// spares returns why member p must not be ended, too; 0: it may be ended.
//
// Invariant: a member may be ended only under two conditions. Among the members that this node counts and that stay, a
// majority each count a majority without p. And no other member is known to be ending now or to have ended a moment
// ago. So orders alone, even those of a lying member, take down one node after the other until a bare majority is left,
// and never take quorum.
func (v *Prover) spares(now boottime.Instant, p int) (why Refusal, other string) {
	var rest roster.Set
	stay := v.stay()
	for m := range stay.All() {
		view := v.in.View.Counted
		if st, _ := v.merger.Statement(m); st != nil {
			view = st.View
		}
		view = view.And(stay) // other members may be about to obey without this node knowing it
		view.Remove(p)
		put(&rest, m, m != p && v.majority(view))
	}
	if !v.majority(rest) {
		return RefusedQuorum, ""
	}
	for m := range v.parted().All() {
		if w := &v.peers[m]; m != p && (w.death.Proof == 0 || w.death.Boot != w.boot) {
			return RefusedBusy, v.roster.Name(m)
		}
	}
	for m := range v.peers {
		if d := &v.peers[m].death; m != p && d.Proof == ProofSentence && now.Sub(d.At) < orderPause {
			return RefusedSoon, v.roster.Name(m)
		}
	}
	return 0, ""
}

// stay returns the counted members that are not about to leave by themselves. A member whose running watchdog is not
// fed will be reset, and a member whose agent stops will count nobody. A member under maintenance stays.
func (v *Prover) stay() (set roster.Set) {
	set.Add(v.roster.Self)
	for m, st := range v.merger.Said(v.in.View.Counted, 0) {
		put(&set, m, !st.Stopping && (st.Feeding || !st.Guard.Armed))
	}
	return set.And(v.in.View.Counted)
}

func (v *Prover) majority(set roster.Set) bool {
	return v.lists.mostOfEach(set) && set.Len() >= v.lists.quorum
}

// commander returns the member that orders this boot to end, or -1.
//
// Invariant: that member itself orders it for this boot, in an answer to a question that this node has asked within the
// last MaxAge, and it counts a majority that includes this node. No node passes on an order, so an old packet, a report
// from a third node and an order for an earlier boot do not count. (A member may be counted for longer than its
// statement is fresh. O8 also asks for fresh statements, but only from the time when this node is about to obey, and a
// rival may have kept it in that state for long.)
func (v *Prover) commander(now boottime.Instant) int {
	own := netgossip.NameDigest(v.roster.Name(v.roster.Self))
	for m, st := range v.words(now, v.cfg.MaxAge) {
		if st.Facts[0].Kind != netgossip.FactOrder {
			continue
		}
		f := factOf(st, netgossip.FactOrder, own, v.cfg.Boot)
		if f == nil || f.Teller != netgossip.TellerDigest(v.roster.Name(m)) {
			continue
		}
		if st.Feeding && !st.Stopping && st.Sentence == 0 && st.View.Has(v.roster.Self) && v.lists.mostOfEach(st.View) {
			return m
		}
	}
	return -1
}

// disobeys returns why this node does not obey an order; 0: it may obey.
func (v *Prover) disobeys(now boottime.Instant) Refusal {
	switch {
	case v.in.Unfit != 0:
		return v.in.Unfit
	case now < v.orders.rest:
		return RefusedSoon
	}
	why, _ := v.spares(now, v.roster.Self)
	return why
}

// rival reports whether a counted member states that it is also about to obey an order, and whether that member obeys
// first.
func (v *Prover) rival() (rival, first bool) {
	self := netgossip.NameDigest(v.roster.Name(v.roster.Self))
	for m, st := range v.merger.Said(v.in.View.Counted, 0) {
		if name := netgossip.NameDigest(v.roster.Name(m)); factOf(st, netgossip.FactOrder, name, st.Boot) != nil {
			rival, first = true, first || name < self
		}
	}
	return rival, first
}

// prepare announces to the others that this node is about to obey, and asks until all of them have answered after the
// announcement.
func (v *Prover) prepare(now boottime.Instant) {
	o := &v.orders
	m := -1
	if !v.in.Apart {
		m = v.commander(now)
	}
	if m < 0 {
		o.by, o.why, o.taken = "", 0, 0
		return
	}
	o.by, o.why = v.roster.Name(m), v.disobeys(now)
	rival, first := v.rival()
	if first {
		o.rest = now.Add(orderPause)
	}
	if o.why != 0 || first {
		o.taken = 0
		return
	}
	switch {
	case o.taken == 0:
		o.taken, o.heard, o.q = now, 0, question{since: now}
	case o.heard == 0:
		o.heard = now
	}
	switch silent := v.unheard(); {
	case !silent.IsEmpty():
		v.askWhether(now, &o.q, orderAsk, silent)
	case rival:
		v.askWhether(now, &o.q, orderAsk, v.others()) // until the rival has given way, or has ended
	default:
		v.out.Wake = min(v.out.Wake, now) // judge makes the decision
	}
}

// unheard returns the counted members that may not have answered since they could hear that this node is about to obey.
// The announcement has certainly been sent only when the next step begins: the step that decided it may have been
// delayed before it handed over its statement.
func (v *Prover) unheard() roster.Set {
	if v.orders.heard == 0 {
		return v.others()
	}
	return v.silent(v.in.View.Counted, max(v.orders.heard, v.orders.taken.Add(letReach)))
}

// obeys reports whether this node condemns its boot because of an order. As lease.md P1 requires, this does not rely on
// silence, but on the answers of a majority without this node.
//
// Invariant: two nodes that count each other do not obey at the same time, and the majority that a node leaves behind
// does not depend on nodes that it does not count. A node first announces that it is about to obey. It condemns itself
// only when all nodes that it counts have answered since then, and none of them is condemned or announces the same: of
// two such nodes, at least one has seen the other's announcement.
func (v *Prover) obeys(now boottime.Instant) bool {
	if v.orders.taken == 0 || v.commander(now) < 0 || v.disobeys(now) != 0 || !v.unheard().IsEmpty() {
		return false
	}
	rival, _ := v.rival()
	return !rival
}

// orderFacts fills in this node's facts about orders: first the order that it gives, then that it is about to obey one.
func (v *Prover) orderFacts(facts *[netgossip.MaxFacts]netgossip.Fact) (n int) {
	o := &v.orders
	if o.since != 0 {
		own := v.roster.Name(v.roster.Self)
		facts[n] = netgossip.Fact{Kind: netgossip.FactOrder, Name: netgossip.NameDigest(o.node), Boot: o.boot, Teller: netgossip.TellerDigest(own)}
		n++
	}
	if o.taken != 0 {
		facts[n] = netgossip.Fact{Kind: netgossip.FactOrder, Name: netgossip.NameDigest(v.roster.Name(v.roster.Self)), Boot: v.cfg.Boot, Teller: netgossip.TellerDigest(o.by)}
		n++
	}
	return n
}

// spreadsOrder reports whether the statement is the first one with an order that this node gives, or with one that it
// obeys.
func (v *Prover) spreadsOrder(facts *[netgossip.MaxFacts]netgossip.Fact) (news bool) {
	o := &v.orders
	for _, f := range facts {
		if f.Kind != netgossip.FactOrder {
			break
		}
		k := 0
		if f.Boot == v.cfg.Boot {
			k = 1
		}
		news = news || o.told[k] != f.Boot
		o.told[k] = f.Boot
	}
	if o.since == 0 {
		o.told[0] = 0
	}
	if o.taken == 0 {
		o.told[1] = 0
	}
	return news
}

// Answer is the outcome of a report, or of an order.
type Answer struct {
	ID    uint64
	Death Death    // the death as now known; zero: the report was refused, or it was an order
	Err   *Refused // why it was refused; nil for an order: the boot has condemned itself, or has ended
}

// Refusal is the reason why a reported death is not believed, or why an order is not given or not obeyed. Its strings
// are the vocabulary of logs and metrics.
type Refusal uint8

const (
	RefusedOff         Refusal = iota + 1 // the configuration allows neither reports nor orders
	RefusedMember                         // no member has that name
	RefusedSelf                           // it is this node
	RefusedUnknownBoot                    // no boot of the node is known here
	RefusedOtherBoot                      // the latest known boot is another one
	RefusedTwins                          // two machines have that name

	// Of a reported death:
	RefusedKind         // this kind of proof cannot be reported from outside: only agents find it
	RefusedNoQuorum     // this node itself may be the one that is cut off
	RefusedContradicted // the boot has answered after it was called dead
	RefusedSeen         // this node sees it
	RefusedSeenByOthers // a counted member sees it
	RefusedHeard        // the node was heard a moment ago
	RefusedWrites       // the node writes to the LUN
	RefusedUnanswered   // a counted member has not answered whether it sees the node
	RefusedBlind        // this node does not read the LUN, and a counted member does
	RefusedUnread       // the node's slot could not be read, or not for long enough
	RefusedRestarts     // the node has announced that its agent restarts, and may still return in time

	// Of an order:
	RefusedNoMajority // this node does not count a majority
	RefusedUnreached  // this node is not in contact with the node
	RefusedUnguarded  // no watchdog would reset the node: maintenance, a stop, a dry run
	RefusedQuorum     // the others would have no majority without the node
	RefusedBusy       // another node is being ended
	RefusedSoon       // another node was ended a moment ago
	RefusedDisobeyed  // the node has not obeyed in time
)

const byHand = "power it off and report that with fencectl confirm-dead"

// refusals lists the name of each refusal, and the text for the operator: NODE, BOOT and OTHER stand for the node, its
// latest known boot and the other member of the Refused. order is the text for an order, if a reason applies to reports
// and to orders.
var refusals = [...]struct{ name, text, order string }{
	RefusedOff: {
		"off", "api.commands is none here: this agent accepts no external confirmation of a death",
		"api.commands is none here, or watchdog.timeout is too short for an order, or the watchdog's driver fires late: " + byHand,
	},
	RefusedMember: {name: "no_member", text: `"NODE" is not a member of this group`},
	RefusedSelf: {
		"self", "NODE is this agent's own node, and it runs: tell the agent of another node",
		"NODE is this agent's own node: order it on another node, or reboot this one",
	},
	RefusedUnknownBoot: {
		"unknown_boot", "this agent has never met NODE and knows no boot of it: tell an agent that has been running without a restart since before NODE was lost",
		"this agent has never met NODE: " + byHand,
	},
	RefusedOtherBoot: {
		"other_boot", "the latest known boot of NODE is BOOT: check that the machine is off, then name this boot",
		"the latest known boot of NODE is BOOT: the boot that was named has ended, or was never met",
	},
	RefusedTwins: {name: "two_machines", text: "two machines answer under the name NODE: stop one of them"},

	RefusedKind:         {name: "kind", text: "only the proofs power, kdump and operator can be confirmed externally; the agents find all others themselves"},
	RefusedNoQuorum:     {name: "no_quorum", text: "this node has no quorum, or has it in an equal split that no grant decides, so others may have quorum without it: tell the agent of a node that has a majority"},
	RefusedContradicted: {name: "contradicted", text: "boot BOOT of NODE has answered after it was called dead: no such confirmation is accepted before another boot of the node answers"},
	RefusedSeen:         {name: "seen", text: "this node sees NODE: it runs"},
	RefusedSeenByOthers: {name: "seen_by_others", text: "OTHER sees NODE: it runs"},
	RefusedHeard:        {name: "heard", text: "NODE was heard a moment ago: it runs, or it was switched off only now; try again in a few seconds"},
	RefusedWrites:       {name: "writes_lun", text: "NODE writes to the LUN: it runs, or it was switched off only now; try again in a few seconds"},
	RefusedUnanswered:   {name: "unanswered", text: "OTHER has not answered whether it sees NODE: try again"},
	RefusedBlind:        {name: "lun_unread", text: "this node cannot read the LUN, and OTHER can: tell the agent of OTHER"},
	RefusedUnread:       {name: "slot_unread", text: "the slot of NODE on the LUN cannot be read, or not for long enough, so it is not known whether NODE writes it: check it with fencectl lun check, and try again"},
	RefusedRestarts:     {name: "restarts", text: "NODE has said that its agent restarts, and may be back within timing.restartGrace: it runs, or it was switched off only now; try again after that"},

	RefusedNoMajority: {name: "no_majority", text: "this node does not count a majority of the group: order it on a node that does"},
	RefusedUnreached:  {name: "unreached", text: "NODE cannot be reached: " + byHand},
	RefusedUnguarded:  {name: "unguarded", text: "NODE has no armed watchdog (maintenance, a planned stop, a dry run, or onQuorumLoss other than fence): nothing would reset it; " + byHand},
	RefusedQuorum:     {name: "costs_quorum", text: "without NODE the others would have no majority, and all would be reset: bring another node back first"},
	RefusedBusy:       {name: "busy", text: "OTHER is being ended: wait until it is FENCED"},
	RefusedSoon:       {name: "too_soon", text: "OTHER was ended less than " + orderPause.String() + " ago: try again after that"},
	RefusedDisobeyed:  {name: "not_obeyed", text: "NODE has not obeyed within " + orderLimit.String() + "; its agent may refuse orders (api.commands), be too old for them, or have a reason that its log names: " + byHand},
}

// String returns the refusal's name in logs and metrics.
func (r Refusal) String() string {
	if r == 0 || int(r) >= len(refusals) {
		return "none"
	}
	return refusals[r].name
}

// Refused is the reason why a report is not believed or an order fails, with advice for the operator.
type Refused struct {
	Why   Refusal
	Order bool // the refused request was an order
	Node  string
	Boot  uint64 // the latest known boot; 0: none is known
	Other string // the other member that the reason is about
}

// Error returns reason and advice in one line.
func (e *Refused) Error() string {
	if e.Why == 0 || int(e.Why) >= len(refusals) {
		return "refused"
	}
	text := refusals[e.Why].text
	switch {
	case e.Order && refusals[e.Why].order != "":
		text = refusals[e.Why].order
	case e.Why == RefusedUnreached && e.Other != "":
		text = "this node cannot reach NODE, and OTHER does: order it on OTHER"
	}
	return strings.NewReplacer(`"NODE"`, strconv.Quote(e.Node), "NODE", e.Node, "BOOT", fmt.Sprintf("%016x", e.Boot), "OTHER", e.Other).Replace(text)
}
