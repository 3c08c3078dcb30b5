package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/words"
)

// statusView shows a status to a person: what the agent does and why, then what it sees,
// then what it does it with.
type statusView struct {
	now   time.Time
	zone  *time.Location
	color bool
	all   bool // every node, however many
	width int  // of the terminal; 0: unknown
}

func (v statusView) render(st *fencingv1.Status) []byte {
	p := &page{color: v.color, width: v.width}
	v.verdict(p, st)
	p.gap()
	v.matrix(p, st)
	p.gap()
	networkItems(p, st)
	lunItems(p, st)
	watchdogItem(p, st)
	budgetItems(p, st)
	rosterItems(p, st)
	return p.buf.Bytes()
}

// verdict is the part that is read first, and by some only.
func (v statusView) verdict(p *page, st *fencingv1.Status) {
	const indent, alarm = 4, "    >>>"
	self, verdict := st.GetSelf(), st.GetVerdict()
	label, permission := self.GetName()+": ", verdictWords(st)
	if age, old := stale(st, v.now); old {
		p.text(label, indent, span{"THE AGENT STANDS STILL", bad},
			span{"- its last status is " + brief(age) + " old. Its permission to feed ends by itself.", plain})
		label, permission.style = "    then: ", plain
	}
	p.text(label, indent, permission, span{"- " + words.Reason(verdict) + lasting(verdict), plain})
	if c := consequence(st); c.text != "" {
		p.text(alarm+" ", len(alarm)+1, c)
	}
	var facts []string
	if since := verdict.GetSince(); since != nil {
		facts = append(facts, fmt.Sprintf("since %s (%s)", since.AsTime().In(v.zone).Format(time.DateTime),
			brief(max(0, st.GetTime().AsTime().Sub(since.AsTime())))))
	}
	facts = append(facts, fmt.Sprintf("group %s of cluster %s", orUnknown(self.GetGroup()), orUnknown(self.GetCluster())),
		fmt.Sprintf("agent %s, up %s", orUnknown(self.GetVersion()), ago(self.GetUptime())))
	p.text("    ", indent, span{strings.Join(facts, "; "), plain})
}

func networkItems(p *page, st *fencingv1.Status) {
	for _, n := range st.GetNetworks() {
		where := n.GetAddress()
		if n.GetInterface() != "" {
			where += " on " + n.GetInterface()
		}
		up, health, count := span{"up", plain}, span{}, plain
		if !n.GetUp() {
			up = span{"DOWN on this node", bad}
		}
		if score := n.GetHealthScore(); score > 0 {
			health = span{fmt.Sprintf(", health %d (0 is good)", score), warn}
		}
		reachable := 0
		for _, m := range n.GetMembers() {
			if m.GetReachable() {
				reachable++
			}
		}
		if reachable < len(n.GetMembers()) {
			count = warn
		}
		p.item("network "+n.GetName(), span{where + ":", plain}, up,
			span{fmt.Sprintf("- %d of %d others reachable", reachable, len(n.GetMembers())) + health.text, max(count, health.style)})
	}
}

func lunItems(p *page, st *fencingv1.Status) {
	if len(st.GetLuns()) == 0 {
		p.item("LUN", span{"none configured", plain})
	}
	for _, l := range st.GetLuns() {
		p.item("LUN", lunSpans(l)...)
	}
	countedByLUN(p, st)
	if l := st.GetLunLease(); l != nil {
		p.item("lease", leaseSpan(l))
	}
	if t := st.GetTerms(); len(t.GetOthers()) > 0 {
		p.item("ties", span{strings.Join(t.GetOthers(), " ") + " break ties in another way than this node, which goes by " + t.GetOwn() + ": an equal split can be lost by both halves", bad})
	} else if t != nil && !t.GetAgreed() {
		p.item("ties", span{"no part in an equal split yet: waiting for the word of " + strings.Join(t.GetMissing(), " ") + " that ties are broken by " + t.GetOwn(), warn})
	}
}

// countedByLUN says whom lun.mode: or does not help: an agent of another version or mode, or one that has no LUN.
func countedByLUN(p *page, st *fencingv1.Status) {
	if st.GetTimeBudget().GetLunEvidence() == nil {
		return
	}
	var not []string
	for _, n := range st.GetNodes() {
		if n.GetName() != st.GetSelf().GetName() && !n.GetCountedByLun() {
			not = append(not, n.GetName())
		}
	}
	if len(not) > 0 {
		p.item("", span{"lun.mode or: not counted by the LUN: " + fewNames(not), warn})
		return
	}
	p.item("", span{"lun.mode or: all others are counted by the LUN, too", plain})
}

func lunSpans(l *fencingv1.LunStatus) []span {
	name := l.GetPath()
	if l.GetDevice() != "" && l.GetDevice() != filepath.Base(name) {
		name += " (" + l.GetDevice() + ")"
	}
	spans := []span{{name + ":", plain}}
	switch {
	case l.GetForeignWriter():
		spans = append(spans, span{"FAILED, another writer in this node's slot: two agents run under one name;", bad})
	case !l.GetHealthy():
		spans = append(spans, span{"FAILED,", bad})
	default:
		spans = append(spans, span{"ok,", plain})
	}
	if l.GetNoEchoBlocks() {
		spans = append(spans, span{"no echo blocks, so nobody holds or is counted by it: fencectl lun upgrade adds them;", warn})
	}
	if names := l.GetStrangers(); len(names) > 0 {
		spans = append(spans, span{"written by nodes that are not of this group: " + strings.Join(names, " ") + ";", bad})
	}
	if l.GetError() != "" {
		spans = append(spans, span{l.GetError() + ";", bad})
	}
	switch {
	case l.Slot == nil:
		spans = append(spans, span{"no slot yet,", warn})
	case !l.GetClaimed():
		spans = append(spans, span{fmt.Sprintf("slot %d not relied on yet,", l.GetSlot()), warn})
	default:
		spans = append(spans, span{fmt.Sprintf("slot %d,", l.GetSlot()), plain})
	}
	io := fmt.Sprintf("write %s, read %s", lastIO(l.GetLastWriteAge(), l.GetWriteLatency()), lastIO(l.GetLastReadAge(), l.GetReadLatency()))
	if l.GetInFlightAge() != nil {
		io += ", I/O under way for " + ago(l.GetInFlightAge())
	}
	return append(spans, span{io, plain})
}

// lastIO says when an I/O ended and how long it took.
func lastIO(age, took *durationpb.Duration) string {
	if age == nil {
		return "never"
	}
	return ago(age) + " ago (" + latency(took) + ")"
}

func leaseSpan(l *fencingv1.LunLease) span {
	text, level := "", plain
	switch {
	case l.GetInstance() == 0:
		text = "nothing was ever decided"
	case l.GetHeld():
		text = fmt.Sprintf("decision %d, held by %s; in force for %s", l.GetInstance(), fewNames(l.GetHolders()), ago(l.GetGrantedFor()))
	default:
		text = fmt.Sprintf("decision %d, granted to %s; this node holds no grant now", l.GetInstance(), fewNames(l.GetHolders()))
	}
	if l.GetPending() {
		text, level = text+"; DECIDING NOW", warn
	}
	return span{text, level}
}

// fewNames lists nodes, at most as many as a person would read.
func fewNames(all []string) string {
	const most = 12
	if len(all) == 0 {
		return "nobody"
	}
	if n := len(all) - most; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), n)
	}
	return strings.Join(all, ", ")
}

// watchdogStates are the words for the states; the loud ones want a person.
var watchdogStates = map[fencingv1.WatchdogState]span{
	fencingv1.WatchdogState_WATCHDOG_STATE_UNARMED:  {"unarmed", plain},
	fencingv1.WatchdogState_WATCHDOG_STATE_ARMED:    {"armed", plain},
	fencingv1.WatchdogState_WATCHDOG_STATE_STARVED:  {"STARVED", bad},
	fencingv1.WatchdogState_WATCHDOG_STATE_DISARMED: {"disarmed", warn},
	fencingv1.WatchdogState_WATCHDOG_STATE_FAULTY:   {"FAULTY", bad},
}

func watchdogItem(p *page, st *fencingv1.Status) {
	w := st.GetWatchdog()
	state, known := watchdogStates[w.GetState()]
	if !known {
		state = span{fmt.Sprintf("state %d", w.GetState()), warn}
	}
	what := orUnknown(w.GetDevice())
	switch {
	case w.GetDriver() != "device":
		what = "driver " + orUnknown(w.GetDriver())
	case w.GetDevice() == "" && w.GetIdentity() != "":
		what = w.GetIdentity()
	case w.GetIdentity() != "":
		what += " (" + w.GetIdentity() + ")"
	}
	if w.GetDriver() == driverNone {
		state = span{"dry run, would be " + state.text, min(state.style, warn)}
	}
	spans := []span{{what + ":", plain}, state}
	if w.GetError() != "" {
		spans = append(spans, span{"- " + w.GetError(), bad})
	}
	if counting(w) {
		spans = append(spans, span{fmt.Sprintf("- timeout %s, last feed %s ago, slack %s",
			exact(w.GetTimeout()), ago(w.GetLastFeedAge()), ago(w.GetSlack())), plain})
	} else if w.GetDisarmReason() != "" {
		spans = append(spans, span{"for " + w.GetDisarmReason(), plain})
	}
	if text := barTexts[w.GetSentenceBar()]; text != "" {
		spans = append(spans, span{"- does not condemn itself: " + text, warn})
	}
	if w.GetNowayout() {
		spans = append(spans, span{"- nowayout: cannot be disarmed", warn})
	}
	if d := w.GetPretimeout().AsDuration(); d > 0 {
		spans = append(spans, span{fmt.Sprintf("- pretimeout %v", d), plain})
	}
	if w.GetLastBootReset() {
		spans = append(spans, span{"- this boot follows a reset by the watchdog", warn})
	}
	p.item("watchdog", spans...)
}

func budgetItems(p *page, st *fencingv1.Status) {
	b := st.GetTimeBudget()
	if b == nil {
		return
	}
	evidence, arbitration, grant := addend{b.GetDMax(), "evidence"}, addend{b.GetArbitration(), "arbitration"}, addend{b.GetGrant(), "grant"}
	death := []addend{{b.GetFeedInterval(), "feed"}, {b.GetWatchdogTimeout(), "watchdog"}, {b.GetMargin(), "margin"}}
	if b.GetRelease().AsDuration() > 0 {
		death = slices.Insert(death, 2, addend{b.GetRelease(), "release"})
	}
	seen := []addend{evidence}
	if b.GetSampling().AsDuration() > 0 {
		seen = append(seen, addend{b.GetSampling(), "sampling"})
	}
	if voices := b.GetLunEvidence(); voices.AsDuration() > total(seen) {
		seen = []addend{{voices, "evidence on the LUN"}}
	}
	p.item("time budget", span{"lost to a majority: " + sum(b.GetHorizonMajority(), append(slices.Clone(seen), death...)), plain})
	if arbitration.AsDuration() <= 0 {
		return
	}
	// The loser of a tie lives until the later of the two: A after its evidence, or the
	// end of a grant that is being superseded.
	tie := append(seen, arbitration)
	if grant.AsDuration() > total(tie) {
		tie = []addend{grant}
	}
	p.item("", span{"equal split: " + sum(b.GetHorizonTie(), append(tie, death...)), plain})
}

// addend is a part of the time budget.
type addend struct {
	*durationpb.Duration
	name string
}

// total adds terms up.
func total(terms []addend) (all time.Duration) {
	for _, t := range terms {
		all += t.AsDuration()
	}
	return all
}

// sum spells an addition out. The total is the agent's; should a later one reckon in
// another way, no wrong arithmetic is shown.
func sum(of *durationpb.Duration, terms []addend) string {
	var parts []string
	for _, t := range terms {
		parts = append(parts, exact(t.Duration)+" "+t.name)
	}
	if total(terms) != of.AsDuration() {
		return exact(of) + " in all; known parts: " + strings.Join(parts, ", ")
	}
	return strings.Join(parts, " + ") + " = " + exact(of)
}

func rosterItems(p *page, st *fencingv1.Status) {
	if r := st.GetRoster(); r != nil {
		p.item("roster", span{fmt.Sprintf("%d nodes, %d needed; epoch %d, digest %s, source %s",
			r.GetSize(), r.GetQuorum(), r.GetEpoch(), orUnknown(r.GetDigest()), orUnknown(r.GetSource())), plain})
		if r.GetChange() != "" {
			words := r.GetChange()
			if w := r.GetWaitingFor(); len(w) > 0 {
				words += "; waiting for " + strings.Join(w, ", ")
			}
			p.item("change", span{words, warn})
		}
	}
	switch a := st.GetApi(); {
	case !a.GetConfigured():
		p.item("kube API", span{"is no tie-breaker here", plain})
	case a.GetAge() == nil:
		p.item("kube API", span{"not asked yet", warn})
	case a.GetReachable():
		p.item("kube API", span{"reachable " + ago(a.GetAge()) + " ago", plain})
	default:
		p.item("kube API", span{"NOT REACHABLE " + ago(a.GetAge()) + " ago", warn})
	}
}
