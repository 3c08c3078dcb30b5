package watchdog

import (
	"fmt"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	// orderLimit is for how long an order stands. A node that has not obeyed by then will not.
	orderLimit = 10 * time.Second
	// orderPause is the time between two nodes that obey, and for how long a node that has given way obeys nothing.
	orderPause = 30 * time.Second
	// orderAsk is after what time a node that is about to obey asks all for their consent: as soon as their answers count.
	orderAsk = letReach + 50*time.Millisecond
)

// Order is the wish of somebody on this node that one boot of another node ends.
type Order struct {
	Node string
	Boot uint64
}

// Obeyed is what became of an order.
type Obeyed struct {
	ID  uint64
	Err *Forbidden // nil: that boot has condemned itself, or has ended
}

// Forbidding says why an order is not given, or not obeyed. Its strings are the vocabulary of logs and metrics.
type Forbidding uint8

// Why an order comes to nothing.
const (
	ForbiddenOff         Forbidding = iota + 1 // the configuration gives and takes none
	ForbiddenMember                            // no member of the list
	ForbiddenSelf                              // this node itself
	ForbiddenNoMajority                        // this node does not count a majority
	ForbiddenUnknownBoot                       // no boot of it is known
	ForbiddenOtherBoot                         // another boot than the latest known one
	ForbiddenTwins                             // two machines have its name
	ForbiddenUnreached                         // this node is not in contact with it
	ForbiddenUnguarded                         // no watchdog would reset it: maintenance, a stop, a dry run
	ForbiddenOld                               // its agent is of a version without sentences
	ForbiddenQuorum                            // the others would have no majority without it
	ForbiddenBusy                              // another node is being ended
	ForbiddenSoon                              // another one was ended a moment ago
	ForbiddenDisobeyed                         // it has not obeyed in time
)

var forbiddingNames = [...]string{
	ForbiddenOff: "off", ForbiddenMember: "no_member", ForbiddenSelf: "self", ForbiddenNoMajority: "no_majority", ForbiddenUnknownBoot: "unknown_boot",
	ForbiddenOtherBoot: "other_boot", ForbiddenTwins: "two_machines", ForbiddenUnreached: "unreached", ForbiddenUnguarded: "unguarded",
	ForbiddenOld: "old_agent", ForbiddenQuorum: "costs_quorum", ForbiddenBusy: "busy", ForbiddenSoon: "too_soon", ForbiddenDisobeyed: "not_obeyed",
}

// String is its name in logs and metrics.
func (f Forbidding) String() string { return nameOf(forbiddingNames[:], f, "none") }

// Forbiddings lists all of them, for metrics that must exist from the start.
func Forbiddings() []Forbidding { return allOf[Forbidding](forbiddingNames[:]) }

// Forbidden is why an order comes to nothing, and what to do.
type Forbidden struct {
	Why   Forbidding
	Node  string
	Boot  uint64 // the latest known one; 0: none is known
	Other string // the member that it is about
}

// Error says it in one line.
func (e *Forbidden) Error() string {
	const byHand = "power it off and tell that with fencectl confirm-dead"
	switch e.Why {
	case ForbiddenOff:
		return "api.commands is none here, or watchdog.timeout is too short to end by an order, or its driver fires late: " + byHand
	case ForbiddenMember:
		return fmt.Sprintf("%q is no member of this group", e.Node)
	case ForbiddenSelf:
		return fmt.Sprintf("%s is this agent's own node: order it on another node, or reboot this one", e.Node)
	case ForbiddenNoMajority:
		return "this node does not count a majority of the group: order it on a node that does"
	case ForbiddenUnknownBoot:
		return fmt.Sprintf("this agent has never met %s: %s", e.Node, byHand)
	case ForbiddenOtherBoot:
		return fmt.Sprintf("the latest known boot of %s is %016x: the one that was named has ended, or was never met", e.Node, e.Boot)
	case ForbiddenTwins:
		return fmt.Sprintf("two machines answer in the name of %s: stop one of them", e.Node)
	case ForbiddenUnreached:
		if e.Other != "" {
			return fmt.Sprintf("this node cannot reach %s, and %s does: order it on %s", e.Node, e.Other, e.Other)
		}
		return fmt.Sprintf("%s cannot be reached: %s", e.Node, byHand)
	case ForbiddenUnguarded:
		return fmt.Sprintf("%s has no armed watchdog (maintenance, a planned stop, a dry run, or onQuorumLoss other than fence): nothing would reset it; %s", e.Node, byHand)
	case ForbiddenOld:
		return fmt.Sprintf("the agent of %s is of a version that takes no orders: %s", e.Node, byHand)
	case ForbiddenQuorum:
		return fmt.Sprintf("without %s the others would have no majority, and all would be reset: bring another node back first", e.Node)
	case ForbiddenBusy:
		return fmt.Sprintf("%s is being ended: wait until it is FENCED", e.Other)
	case ForbiddenSoon:
		return fmt.Sprintf("%s was ended less than %v ago: try again then", e.Other, orderPause)
	case ForbiddenDisobeyed:
		return fmt.Sprintf("%s has not obeyed within %v; its agent may refuse orders (api.commands), be older, or know of a reason that its log names: %s", e.Node, orderLimit, byHand)
	}
	return "forbidden"
}

// orders are the order that this node gives, and the one that it was given. Nodes stand in them by name: lists change.
type orders struct {
	wishes []wish

	node  string // that is to end
	boot  uint64
	since boottime.Instant // zero: this node gives none
	ids   []uint64         // of Core.Order

	told [2]uint64 // boots of which all peers were told at once: of the order that is given, and of this node's own

	by    string           // who has ordered that this node ends; "": nobody
	taken boottime.Instant // since when this node says so; zero: it does not
	heard boottime.Instant // of the step after that, by which all could hear it; zero: there was none
	why   Forbidding       // it does not obey
	rest  boottime.Instant // it obeys nothing before
	q     question         // whether all have heard it
}

type wish struct {
	id uint64
	Order
}

// Order has another node end its present boot. The answer is in the Effects of this step or of one of those to come.
func (v *Prover) Order(id uint64, o Order) { v.orders.wishes = append(v.orders.wishes, wish{id, o}) }

// Ordered is who has ordered that this node ends, and why it does not obey; "": nobody has.
func (v *Prover) Ordered() (by string, why Forbidding) { return v.orders.by, v.orders.why }

// followOrders gives the orders that are wished for, and prepares to obey one. It is part of the step, by what that has made known.
func (v *Prover) followOrders(now boottime.Instant, in *proverInput) *proverOutput {
	v.in = *in
	o := &v.orders
	for _, w := range o.wishes {
		switch err := v.forbids(now, w.Node, w.Boot); {
		case err != nil:
			v.out.Obeyed = append(v.out.Obeyed, Obeyed{w.id, err})
		case o.since != 0 && (o.node != w.Node || o.boot != w.Boot):
			v.out.Obeyed = append(v.out.Obeyed, Obeyed{w.id, &Forbidden{Why: ForbiddenBusy, Node: w.Node, Other: o.node}})
		default:
			if o.since == 0 {
				o.node, o.boot, o.since = w.Node, w.Boot, now
			}
			o.ids = append(o.ids, w.id)
		}
	}
	if o.wishes = o.wishes[:0]; o.since != 0 {
		v.pursue(now)
	}
	v.prepare(now)
	return &v.out
}

// pursue goes on with the order that this node gives.
func (v *Prover) pursue(now boottime.Instant) {
	o := &v.orders
	end := func(err *Forbidden) {
		for _, id := range o.ids {
			v.out.Obeyed = append(v.out.Obeyed, Obeyed{id, err})
		}
		o.node, o.boot, o.since, o.ids = "", 0, 0, nil
	}
	p, member := v.roster.Index(o.node)
	switch {
	case member && v.isOver(p, o.boot):
		end(nil)
	case !member || v.in.Apart || now.Sub(o.since) >= orderLimit:
		end(&Forbidden{Why: ForbiddenDisobeyed, Node: o.node, Boot: o.boot})
	default:
		v.out.Wake = min(v.out.Wake, o.since.Add(orderLimit))
	}
}

// isOver reports whether a boot has condemned itself, as it says itself, or is known to have ended.
func (v *Prover) isOver(p int, boot uint64) bool {
	w := &v.peers[p]
	return w.sentenced == boot && w.hearsay == 0 && w.defied != boot || w.death.Boot == boot && w.death.Proof != 0 && v.fenced.Has(p)
}

// forbids is what this node knows against an order. The node that is to end decides by itself; this spares people the wait.
func (v *Prover) forbids(now boottime.Instant, node string, boot uint64) *Forbidden {
	p, member := v.roster.Index(node)
	if !v.cfg.Orders {
		return &Forbidden{Why: ForbiddenOff, Node: node}
	}
	if !member || !v.lists.expected.Has(p) {
		return &Forbidden{Why: ForbiddenMember, Node: node}
	}
	known, w := v.KnownBoot(p), &v.peers[p]
	no := func(why Forbidding, other string) *Forbidden {
		return &Forbidden{Why: why, Node: node, Boot: known, Other: other}
	}
	switch {
	case p == v.roster.Self:
		return no(ForbiddenSelf, "")
	case !v.in.Leads: // nor does one that is condemned, or waits
		return no(ForbiddenNoMajority, "")
	case known == 0:
		return no(ForbiddenUnknownBoot, "")
	case boot != known || w.unmet():
		return no(ForbiddenOtherBoot, "")
	case v.isOver(p, boot):
		return nil
	case w.twins || w.returned > 0:
		return no(ForbiddenTwins, "")
	case !v.in.View.Counted.Has(p):
		if m, sees := v.whoSees(now, p); sees {
			return no(ForbiddenUnreached, v.roster.Name(m))
		}
		return no(ForbiddenUnreached, "")
	}
	switch st, _ := v.merger.Statement(p); {
	case st == nil || !st.Heeds:
		return no(ForbiddenOld, "")
	case !st.Guard.Kills() || st.Stopping:
		return no(ForbiddenUnguarded, "")
	}
	if why, other := v.spares(now, p); why != 0 {
		return no(why, other)
	}
	return nil
}

// spares is what keeps one member more from being ended.
//
// Invariant: a majority of the members counts a majority without it, of those whom this node counts and who stay, and no member is
// known to be ended now or a moment ago. So orders alone, also those of a member that lies, take one node after the other down to
// a bare majority, and never quorum.
func (v *Prover) spares(now boottime.Instant, p int) (why Forbidding, other string) {
	var rest roster.Set
	stay := v.stay()
	for m := range stay.All() {
		view := v.in.View.Counted
		if m != v.roster.Self {
			st, _ := v.merger.Statement(m)
			if view = (roster.Set{}); st != nil {
				view = st.View
			}
		}
		view = view.And(stay) // others may be about to obey, too, unseen
		view.Remove(p)
		put(&rest, m, m != p && v.majority(view))
	}
	if !v.majority(rest) {
		return ForbiddenQuorum, ""
	}
	for m := range v.parted().All() {
		if w := &v.peers[m]; m != p && (w.death.Proof == 0 || w.death.Boot != w.boot) {
			return ForbiddenBusy, v.roster.Name(m)
		}
	}
	for m := range v.peers {
		if d := &v.peers[m].death; m != p && d.Proof == ProofSentence && now.Sub(d.At) < orderPause {
			return ForbiddenSoon, v.roster.Name(m)
		}
	}
	return 0, ""
}

// stay are the counted members that are not about to go by themselves. One whose watchdog runs and is not fed will be reset, and
// one whose agent stops will count nobody. One under maintenance stays.
func (v *Prover) stay() (set roster.Set) {
	for m := range v.in.View.Counted.All() {
		st, _ := v.merger.Statement(m)
		put(&set, m, m == v.roster.Self || st != nil && !st.Stopping && (st.Feeding || !st.Guard.Armed))
	}
	return set
}

func (v *Prover) majority(set roster.Set) bool {
	return v.lists.mostOfEach(set) && set.Len() >= v.lists.quorum
}

// orderFact is the order of a statement for this node or, with itself, what a member says of its own boot; nil: there is none.
func orderFact(st *netgossip.Statement, name, boot uint64) *netgossip.Fact {
	for i := range st.Facts {
		if f := &st.Facts[i]; f.Kind == netgossip.FactOrder && f.Name == name && f.Boot == boot {
			return f
		}
	}
	return nil
}

// commander is the member that orders this boot to end, or -1.
//
// Invariant: it says so itself, in an answer to a question that this node has put within the last MaxAge, of this boot, and counts
// a majority with this node in it. Nobody hands an order on, so an old packet, another's word and an order for an earlier boot are
// none. (A member may be counted longer than its statement is fresh. O8 asks for fresh ones, too, but only since this node is about
// to obey, and a rival may have kept it there.)
func (v *Prover) commander(now boottime.Instant) int {
	own := netgossip.NameDigest(v.roster.Name(v.roster.Self))
	for m := range v.in.View.Counted.All() {
		if m == v.roster.Self {
			continue
		}
		st, anchor := v.merger.Statement(m)
		if st == nil || st.Facts[0].Kind != netgossip.FactOrder || now.Sub(anchor) > v.cfg.MaxAge {
			continue
		}
		f := orderFact(st, own, v.cfg.Boot)
		if f == nil || f.Teller != netgossip.TellerDigest(v.roster.Name(m)) {
			continue
		}
		if st.Feeding && !st.Stopping && st.Sentence == 0 && st.View.Has(v.roster.Self) && v.lists.mostOfEach(st.View) {
			return m
		}
	}
	return -1
}

// disobeys is why this node does not obey an order; 0: it may.
func (v *Prover) disobeys(now boottime.Instant) Forbidding {
	switch {
	case v.in.Unfit != 0:
		return v.in.Unfit
	case now < v.orders.rest:
		return ForbiddenSoon
	}
	why, _ := v.spares(now, v.roster.Self)
	return why
}

// rival is whether a counted member says that it is about to obey an order, too; first: and it goes first.
func (v *Prover) rival() (rival, first bool) {
	self := netgossip.NameDigest(v.roster.Name(v.roster.Self))
	for m := range v.in.View.Counted.All() {
		st, _ := v.merger.Statement(m)
		if m == v.roster.Self || st == nil {
			continue
		}
		if name := netgossip.NameDigest(v.roster.Name(m)); orderFact(st, name, st.Boot) != nil {
			rival, first = true, first || name < self
		}
	}
	return rival, first
}

// prepare says to the others that this node is about to obey, and has all of them answer since.
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
		v.askWhether(now, &o.q, orderAsk, v.others()) // until it has given way, or has ended
	default:
		v.out.Wake = min(v.out.Wake, now) // judge decides
	}
}

// unheard are the counted members that may not have answered since they could hear that this node is about to obey: it has said so
// for certain when the next step begins. The one that decided it may have been held up before its statement was handed over.
func (v *Prover) unheard() roster.Set {
	if v.orders.heard == 0 {
		return v.others()
	}
	return v.silent(v.in.View.Counted, max(v.orders.heard, v.orders.taken.Add(letReach)))
}

func (v *Prover) others() roster.Set {
	set := v.in.View.Counted
	set.Remove(v.roster.Self)
	return set
}

// obeys reports whether this node condemns its boot because it was ordered to. See lease.md P1: it is no silence that it goes by,
// but the answers of a majority without it.
//
// Invariant: no two nodes that count each other obey at once, and what is left by one does not rest on those whom it does not
// count. Each says first that it is about to, and condemns itself only when all that it counts have
// answered since and none says the same, or is condemned: of two one has seen the other.
func (v *Prover) obeys(now boottime.Instant) bool {
	if v.orders.taken == 0 || v.commander(now) < 0 || v.disobeys(now) != 0 || !v.unheard().IsEmpty() {
		return false
	}
	rival, _ := v.rival()
	return !rival
}

// orderFacts are what this node says of orders: first the one that it gives, then that it is about to obey one.
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

// spreadsOrder reports whether the statement begins to give an order, or to say that one is obeyed.
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
