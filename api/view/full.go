package view

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/words"
)

// Text shows a status on a terminal.
type Text struct {
	Now   time.Time
	Zone  *time.Location
	Color bool
	Width int  // of the terminal; 0: unknown
	All   bool // every node, however many
	// Verbose: not only what a person needs first.
	Verbose bool
}

// Render is the text.
func (v *Text) Render(st *fencingv1.Status) []byte {
	p := &Page{Color: v.Color, Width: v.Width}
	v.verdict(p, st)
	p.Gap()
	if !v.Verbose && !v.All {
		v.first(p, st)
		return p.Bytes()
	}
	v.matrix(p, st)
	p.Gap()
	allItems(p, st)
	budgetItems(p, st)
	before(p, st, v.Zone)
	return p.Bytes()
}

func allItems(p *Page, st *fencingv1.Status) {
	missingItems(p, st)
	networkItems(p, st)
	lunItems(p, st)
	watchdogItem(p, st)
	rosterItems(p, st)
}

// missingItems say what the agent runs without. A network says itself that it is down, and this says why.
func missingItems(p *Page, st *fencingv1.Status) {
	for _, m := range st.GetMissing() {
		age := max(0, st.GetTime().AsTime().Sub(m.GetSince().AsTime()))
		p.item("missing", Span{m.GetPart() + ":", Bad}, Span{strings.TrimPrefix(m.GetProblem(), m.GetPart()+": ") + " (for " + Brief(age) + ")", Warn})
	}
}

// before says how the boot before this one ended.
func before(p *Page, st *fencingv1.Status, zone *time.Location) {
	b := st.GetPreviousBoot()
	if b == nil {
		return
	}
	level := Plain
	if b.GetEnd() != fencingv1.BootEnd_BOOT_END_STOPPED && b.GetEnd() != fencingv1.BootEnd_BOOT_END_DISARMED {
		level = Warn
	}
	p.item("last boot", Span{"ended " + endWords[b.GetEnd()] + " (" + b.GetBootNonce() + ", last record " +
		b.GetLastRecord().AsTime().In(zone).Format(time.DateTime) + "): " + b.GetText(), level})
}

var endWords = map[fencingv1.BootEnd]string{
	fencingv1.BootEnd_BOOT_END_UNSPECIFIED: "in a way that this version does not know",
	fencingv1.BootEnd_BOOT_END_STOPPED:     "after a planned stop of the agent",
	fencingv1.BootEnd_BOOT_END_DISARMED:    "while the watchdog was disarmed",
	fencingv1.BootEnd_BOOT_END_STARVED:     "NOT FED",
	fencingv1.BootEnd_BOOT_END_CONDEMNED:   "CONDEMNED BY ITSELF",
	fencingv1.BootEnd_BOOT_END_TAKEN_DOWN:  "TAKEN DOWN",
	fencingv1.BootEnd_BOOT_END_SUDDEN:      "WITHOUT LAST WORDS",
	fencingv1.BootEnd_BOOT_END_TESTED:      "BY A TEST of its watchdog",
}

// lasting says how long the permission is good for, unless it is a matter of course.
func (v *Text) lasting(verdict *fencingv1.Verdict) string {
	if !v.Verbose && !v.All && verdict.GetPermission() == fencingv1.Permission_PERMISSION_FEED && verdict.GetQuorum() {
		return ""
	}
	return lasting(verdict)
}

// verdict is the part that is read first, and by some only.
func (v *Text) verdict(p *Page, st *fencingv1.Status) {
	const indent, alarm = 4, "    >>>"
	self, verdict := st.GetSelf(), st.GetVerdict()
	label, permission := self.GetName()+": ", Permission(st)
	if age, old := Stale(st, v.Now); old {
		p.Text(label, indent, Span{"THE AGENT STANDS STILL", Bad},
			Span{"- its last status is " + Brief(age) + " old. Its permission to feed ends by itself.", Plain})
		label, permission.Style = "    then: ", Plain
	}
	p.Text(label, indent, permission, Span{"- " + words.Reason(verdict) + v.lasting(verdict), Plain})
	if c := Consequence(st); c.Text != "" {
		p.Text(alarm+" ", len(alarm)+1, c)
	}
	var facts []string
	if since := verdict.GetSince(); since != nil {
		facts = append(facts, fmt.Sprintf("since %s (%s)", since.AsTime().In(v.Zone).Format(time.DateTime),
			Brief(max(0, st.GetTime().AsTime().Sub(since.AsTime())))))
	}
	facts = append(facts, fmt.Sprintf("group %s of cluster %s", OrUnknown(self.GetGroup()), OrUnknown(self.GetCluster())))
	if v.Verbose || v.All {
		facts = append(facts, fmt.Sprintf("agent %s, up %s", OrUnknown(self.GetVersion()), Ago(self.GetUptime())))
	}
	p.Text("    ", indent, Span{strings.Join(facts, "; "), Plain})
}

func networkItems(p *Page, st *fencingv1.Status) {
	for _, n := range st.GetNetworks() {
		where := cmp.Or(n.GetAddress(), "no address")
		if n.GetInterface() != "" {
			where += " on " + n.GetInterface()
		}
		up, health, count := Span{"up", Plain}, Span{}, Plain
		if !n.GetUp() {
			up = Span{"DOWN on this node", Bad}
		}
		if score := n.GetHealthScore(); score > 0 {
			health = Span{fmt.Sprintf(", health %d (0 is good)", score), Warn}
		}
		reachable := 0
		for _, m := range n.GetMembers() {
			if m.GetReachable() {
				reachable++
			}
		}
		if reachable < len(n.GetMembers()) {
			count = Warn
		}
		p.item("network "+n.GetName(), Span{where + ":", Plain}, up,
			Span{fmt.Sprintf("- %d of %d others reachable", reachable, len(n.GetMembers())) + health.Text, max(count, health.Style)})
	}
}

func lunItems(p *Page, st *fencingv1.Status) {
	if len(st.GetLuns()) == 0 {
		p.item("LUN", Span{"none configured", Plain})
	}
	for _, l := range st.GetLuns() {
		p.item("LUN", lunSpans(l)...)
	}
	countedByLUN(p, st)
	if l := st.GetLunLease(); l != nil {
		p.item("lease", leaseSpan(l))
	}
	if t := st.GetTerms(); len(t.GetOthers()) > 0 {
		p.item("ties", Span{strings.Join(t.GetOthers(), " ") + " break ties in another way than this node, which goes by " + t.GetOwn() + ": an equal split can be lost by both halves", Bad})
	} else if t != nil && !t.GetAgreed() {
		p.item("ties", Span{"no part in an equal split yet: waiting for the word of " + strings.Join(t.GetMissing(), " ") + " that ties are broken by " + t.GetOwn(), Warn})
	}
}

// countedByLUN says whom lun.mode: or does not help: an agent of another version or mode, or one that has no LUN.
func countedByLUN(p *Page, st *fencingv1.Status) {
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
		p.item("", Span{"lun.mode or: not counted by the LUN: " + FewNames(not), Warn})
		return
	}
	p.item("", Span{"lun.mode or: all others are counted by the LUN, too", Plain})
}

func lunSpans(l *fencingv1.LunStatus) []Span {
	name := l.GetPath()
	if l.GetDevice() != "" && l.GetDevice() != filepath.Base(name) {
		name += " (" + l.GetDevice() + ")"
	}
	spans := []Span{{name + ":", Plain}}
	switch {
	case l.GetForeignWriter():
		spans = append(spans, Span{"FAILED, another writer in this node's slot: two agents run under one name;", Bad})
	case !l.GetHealthy():
		spans = append(spans, Span{"FAILED,", Bad})
	default:
		spans = append(spans, Span{"ok,", Plain})
	}
	if l.GetNoEchoBlocks() {
		spans = append(spans, Span{"no echo blocks, so nobody holds or is counted by it: fencectl lun repair upgrade adds them;", Warn})
	}
	if names := l.GetStrangers(); len(names) > 0 {
		spans = append(spans, Span{"written by nodes that are not of this group: " + strings.Join(names, " ") + ";", Bad})
	}
	if l.GetError() != "" {
		spans = append(spans, Span{l.GetError() + ";", Bad})
	}
	switch {
	case l.Slot == nil:
		spans = append(spans, Span{"no slot yet,", Warn})
	case !l.GetClaimed():
		spans = append(spans, Span{fmt.Sprintf("slot %d not relied on yet,", l.GetSlot()), Warn})
	default:
		spans = append(spans, Span{fmt.Sprintf("slot %d,", l.GetSlot()), Plain})
	}
	io := fmt.Sprintf("write %s, read %s", lastIO(l.GetLastWriteAge(), l.GetWriteLatency()), lastIO(l.GetLastReadAge(), l.GetReadLatency()))
	if l.GetInFlightAge() != nil {
		io += ", I/O under way for " + Ago(l.GetInFlightAge())
	}
	return append(spans, Span{io, Plain})
}

// lastIO says when an I/O ended and how long it took.
func lastIO(age, took *durationpb.Duration) string {
	if age == nil {
		return "never"
	}
	return Ago(age) + " ago (" + latency(took) + ")"
}

func leaseSpan(l *fencingv1.LunLease) Span {
	text, level := "", Plain
	switch {
	case l.GetInstance() == 0:
		text = "nothing was ever decided"
	case l.GetHeld():
		text = fmt.Sprintf("decision %d, held by %s; in force for %s", l.GetInstance(), FewNames(l.GetHolders()), Ago(l.GetGrantedFor()))
	default:
		text = fmt.Sprintf("decision %d, granted to %s; this node holds no grant now", l.GetInstance(), FewNames(l.GetHolders()))
	}
	if l.GetPending() {
		text, level = text+"; DECIDING NOW", Warn
	}
	return Span{text, level}
}

// FewNames lists nodes, at most as many as a person would read.
func FewNames(all []string) string {
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
var watchdogStates = map[fencingv1.WatchdogState]Span{
	fencingv1.WatchdogState_WATCHDOG_STATE_UNARMED:  {"unarmed", Plain},
	fencingv1.WatchdogState_WATCHDOG_STATE_ARMED:    {"armed", Plain},
	fencingv1.WatchdogState_WATCHDOG_STATE_STARVED:  {"STARVED", Bad},
	fencingv1.WatchdogState_WATCHDOG_STATE_DISARMED: {"disarmed", Warn},
	fencingv1.WatchdogState_WATCHDOG_STATE_FAULTY:   {"FAULTY", Bad},
}

func watchdogItem(p *Page, st *fencingv1.Status) {
	w := st.GetWatchdog()
	state, known := watchdogStates[w.GetState()]
	if !known {
		state = Span{fmt.Sprintf("state %d", w.GetState()), Warn}
	}
	what := OrUnknown(w.GetDevice())
	switch {
	case w.GetDriver() != "device":
		what = "driver " + OrUnknown(w.GetDriver())
	case w.GetDevice() == "" && w.GetIdentity() != "":
		what = w.GetIdentity()
	case w.GetIdentity() != "":
		what += " (" + w.GetIdentity() + ")"
	}
	if w.GetDriver() == driverNone {
		state = Span{"dry run, would be " + state.Text, min(state.Style, Warn)}
	}
	spans := []Span{{what + ":", Plain}, state}
	if w.GetError() != "" {
		spans = append(spans, Span{"- " + w.GetError(), Bad})
	}
	if counting(w) {
		spans = append(spans, Span{fmt.Sprintf("- timeout %s, last feed %s ago, slack %s",
			Exact(w.GetTimeout()), Ago(w.GetLastFeedAge()), Ago(w.GetSlack())), Plain})
	} else if w.GetDisarmReason() != "" {
		spans = append(spans, Span{"for " + w.GetDisarmReason(), Plain})
	}
	if text := barTexts[w.GetSentenceBar()]; text != "" && w.GetState() != fencingv1.WatchdogState_WATCHDOG_STATE_FAULTY {
		spans = append(spans, Span{"- does not condemn itself: " + text, Warn})
	}
	if w.GetNowayout() {
		spans = append(spans, Span{"- nowayout: cannot be disarmed", Warn})
	}
	if d := w.GetPretimeout().AsDuration(); d > 0 {
		spans = append(spans, Span{fmt.Sprintf("- pretimeout %v", d), Plain})
	}
	if w.GetLastBootReset() {
		spans = append(spans, Span{"- this boot follows a reset by the watchdog", Warn})
	}
	p.item("watchdog", spans...)
}

func budgetItems(p *Page, st *fencingv1.Status) {
	label := "time budget"
	for _, b := range budgets(st) {
		p.item(label, Span{b.name + ": " + sum(b.total, b.terms), Plain})
		label = ""
	}
}

// budget is a time after which a lost node has been reset, and what it is the sum of.
type budget struct {
	name  string
	total *durationpb.Duration
	terms []addend
}

func budgets(st *fencingv1.Status) []budget {
	b := st.GetTimeBudget()
	if b == nil {
		return nil
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
	out := []budget{{"lost to a majority", b.GetHorizonMajority(), append(slices.Clone(seen), death...)}}
	if arbitration.AsDuration() <= 0 {
		return out
	}
	// The loser of a tie lives until the later of the two: A after its evidence, or the
	// end of a grant that is being superseded.
	tie := append(seen, arbitration)
	if grant.AsDuration() > total(tie) {
		tie = []addend{grant}
	}
	return append(out, budget{"equal split", b.GetHorizonTie(), append(tie, death...)})
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
		parts = append(parts, Exact(t.Duration)+" "+t.name)
	}
	if total(terms) != of.AsDuration() {
		return Exact(of) + " in all; known parts: " + strings.Join(parts, ", ")
	}
	return strings.Join(parts, " + ") + " = " + Exact(of)
}

func rosterItems(p *Page, st *fencingv1.Status) {
	if r := st.GetRoster(); r != nil {
		p.item("roster", Span{fmt.Sprintf("%d nodes, %d needed; epoch %d, digest %s, source %s",
			r.GetSize(), r.GetQuorum(), r.GetEpoch(), OrUnknown(r.GetDigest()), OrUnknown(r.GetSource())), Plain})
		if r.GetChange() != "" {
			words := r.GetChange()
			if w := r.GetWaitingFor(); len(w) > 0 {
				words += "; waiting for " + strings.Join(w, ", ")
			}
			p.item("change", Span{words, Warn})
		}
		if d := r.GetPolicyDiffers(); len(d) > 0 {
			p.item("policy", Span{strings.Join(d, "; ") + " (this agent goes by its configuration)", Warn})
		}
	}
	switch a := st.GetApi(); {
	case !a.GetConfigured():
		p.item("kube API", Span{"is no tie-breaker here", Plain})
	case a.GetAge() == nil:
		p.item("kube API", Span{"not asked yet", Warn})
	case a.GetReachable():
		p.item("kube API", Span{"reachable " + Ago(a.GetAge()) + " ago", Plain})
	default:
		p.item("kube API", Span{"NOT REACHABLE " + Ago(a.GetAge()) + " ago", Warn})
	}
}
