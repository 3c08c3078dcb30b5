package view

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fencing-agent/fencing-agent/api/trouble"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/words"
	"github.com/fencing-agent/fencing-agent/history"
)

// Text shows a status on a terminal.
type Text struct {
	Now   time.Time
	Zone  *time.Location
	Color bool
	Width int  // of the terminal; 0: unknown
	All   bool // every node, however many
	// Verbose shows everything, and not only what a person needs first.
	Verbose bool
}

// Render returns the text.
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

// missingItems writes which parts the agent lacks. That a network is down is shown with the network; here is the
// reason.
func missingItems(p *Page, st *fencingv1.Status) {
	for _, m := range st.GetMissing() {
		age := max(0, st.GetTime().AsTime().Sub(m.GetSince().AsTime()))
		i := Item{Label: "missing"}
		i.fault(trouble.PartMissing, m.GetPart(), m.GetPart()+":")
		i.say(strings.TrimPrefix(m.GetProblem(), m.GetPart()+": ") + " (for " + Brief(age) + ")")
		p.add(i)
	}
}

// before describes how the previous boot ended.
func before(p *Page, st *fencingv1.Status, zone *time.Location) {
	b := st.GetPreviousBoot()
	if b == nil {
		return
	}
	const label = "last boot"
	end := history.End(strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(b.GetEnd().String(), "BOOT_END_")), "_", "-"))
	text := "ended " + cmp.Or(EndWords[end], "in a way that this version does not know") + " (" + b.GetBootNonce() + ", last record " +
		b.GetLastRecord().AsTime().In(zone).Format(time.DateTime) + "): " + b.GetText()
	if end == history.EndStopped || end == history.EndDisarmed {
		p.item(label, Span{text, Plain})
	} else {
		p.fault(label, trouble.ResetByWatchdog, text)
	}
}

// EndWords describes how a boot has ended.
var EndWords = map[history.End]string{
	history.EndStopped:   "after a planned stop of the agent",
	history.EndDisarmed:  "while the watchdog was disarmed",
	history.EndStarved:   "NOT FED",
	history.EndCondemned: "BY A SELF-FENCE",
	history.EndStruck:    "TAKEN DOWN",
	history.EndSudden:    "WITHOUT LAST WORDS",
	history.EndTested:    "BY A TEST of its watchdog",
}

// lasting describes how long the permission is valid, if that is unusual.
func (v *Text) lasting(verdict *fencingv1.Verdict) string {
	if !v.Verbose && !v.All && verdict.GetPermission() == fencingv1.Permission_PERMISSION_FEED && verdict.GetQuorum() {
		return ""
	}
	return lasting(verdict)
}

// verdict writes the part that is read first, and often alone.
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
		i := Item{Label: "network " + n.GetName()}
		i.say(where + ":")
		if n.GetUp() {
			i.say("up")
		} else {
			i.fault(trouble.NetworkDown, i.Label, "DOWN on this node")
		}
		health := ""
		if score := n.GetHealthScore(); score > 0 {
			health = fmt.Sprintf(", health %d (0 is good)", score)
		}
		reachable := 0
		for _, m := range n.GetMembers() {
			if m.GetReachable() {
				reachable++
			}
		}
		text := fmt.Sprintf("- %d of %d others reachable", reachable, len(n.GetMembers())) + health
		if reachable < len(n.GetMembers()) {
			i.fault(trouble.NetworkDegraded, i.Label, text)
		} else {
			i.say(text)
		}
		p.add(i)
	}
}

func lunItems(p *Page, st *fencingv1.Status) {
	if len(st.GetLuns()) == 0 {
		p.item("LUN", Span{"none configured", Plain})
	}
	for _, l := range st.GetLuns() {
		p.add(lunItem(l))
	}
	countedByLUN(p, st)
	if l := st.GetLunLease(); l != nil {
		p.add(leaseItem(l))
	}
	if t := st.GetTerms(); len(t.GetOthers()) > 0 {
		p.fault("ties", trouble.TiesDiffer, strings.Join(t.GetOthers(), " ")+" break ties in another way than this node, which uses "+t.GetOwn()+": an equal split can be lost by both halves")
	} else if t != nil && !t.GetAgreed() {
		p.fault("ties", trouble.TiesUnconfirmed, "no part in an equal split yet: waiting for "+strings.Join(t.GetMissing(), " ")+" to confirm that ties are broken by "+t.GetOwn())
	}
}

// countedByLUN names the nodes that lun.mode: or does not help, since their agents have another version or mode, or no
// LUN.
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
		p.fault("", trouble.LUNNotCounting, "lun.mode or: not counted by the LUN: "+FewNames(not))
		return
	}
	p.item("", Span{"lun.mode or: all others are counted by the LUN, too", Plain})
}

func lunItem(l *fencingv1.LunStatus) Item {
	name, i := l.GetPath(), Item{Label: "LUN"}
	fault := func(t *trouble.Trouble, text string) { i.fault(t, l.GetPath(), text) }
	if l.GetDevice() != "" && l.GetDevice() != filepath.Base(name) {
		name += " (" + l.GetDevice() + ")"
	}
	i.say(name + ":")
	switch {
	case l.GetForeignWriter():
		fault(trouble.LUNTwoWriters, "FAILED, another writer in this node's slot: two agents run under one name;")
	case !l.GetHealthy():
		fault(trouble.LUNUnhealthy, "FAILED,")
	default:
		i.say("ok,")
	}
	if names := l.GetStrangers(); len(names) > 0 {
		fault(trouble.LUNStrangers, "written by nodes that are not of this group: "+strings.Join(names, " ")+";")
	}
	if l.GetError() != "" {
		fault(trouble.LUNUnhealthy, l.GetError()+";")
	}
	switch {
	case l.Slot == nil:
		fault(trouble.LUNNotReady, "no slot yet,")
	case !l.GetClaimed():
		fault(trouble.LUNNotReady, fmt.Sprintf("slot %d not relied on yet,", l.GetSlot()))
	default:
		i.say(fmt.Sprintf("slot %d,", l.GetSlot()))
	}
	io := fmt.Sprintf("write %s, read %s", lastIO(l.GetLastWriteAge(), l.GetWriteLatency()), lastIO(l.GetLastReadAge(), l.GetReadLatency()))
	if l.GetInFlightAge() != nil {
		io += ", I/O under way for " + Ago(l.GetInFlightAge())
	}
	i.say(io)
	return i
}

// lastIO describes when an I/O ended and how long it took.
func lastIO(age, took *durationpb.Duration) string {
	if age == nil {
		return "never"
	}
	return Ago(age) + " ago (" + latency(took) + ")"
}

func leaseItem(l *fencingv1.LunLease) Item {
	text, i := "", Item{Label: "lease"}
	switch {
	case l.GetInstance() == 0:
		text = "nothing was ever decided"
	case l.GetHeld():
		text = fmt.Sprintf("decision %d, held by %s; in force for %s", l.GetInstance(), FewNames(l.GetHolders()), Ago(l.GetGrantedFor()))
	default:
		text = fmt.Sprintf("decision %d, granted to %s; this node holds no grant now", l.GetInstance(), FewNames(l.GetHolders()))
	}
	if l.GetPending() {
		i.fault(trouble.TiePending, "", text+"; DECIDING NOW")
	} else {
		i.say(text)
	}
	return i
}

// FewNames lists at most as many nodes as a person would read.
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

// watchdogStates holds the texts and troubles of the states.
var watchdogStates = map[fencingv1.WatchdogState]struct {
	text  string
	fault *trouble.Trouble
}{
	fencingv1.WatchdogState_WATCHDOG_STATE_UNARMED:  {"unarmed", nil},
	fencingv1.WatchdogState_WATCHDOG_STATE_ARMED:    {"armed", nil},
	fencingv1.WatchdogState_WATCHDOG_STATE_STARVED:  {"STARVED", trouble.WatchdogStarved},
	fencingv1.WatchdogState_WATCHDOG_STATE_DISARMED: {"disarmed", trouble.Maintenance},
	fencingv1.WatchdogState_WATCHDOG_STATE_FAULTY:   {"FAULTY", trouble.WatchdogFaulty},
}

func watchdogItem(p *Page, st *fencingv1.Status) {
	w := st.GetWatchdog()
	state, known := watchdogStates[w.GetState()]
	if !known {
		state.text = fmt.Sprintf("state %d", w.GetState())
	}
	what := OrUnknown(w.GetDevice())
	switch {
	case w.GetDriver() != "device" && w.GetDriver() != "tested":
		what = "driver " + OrUnknown(w.GetDriver())
	case w.GetDevice() == "" && w.GetIdentity() != "":
		what = w.GetIdentity()
	case w.GetIdentity() != "":
		what += " (" + w.GetIdentity() + ")"
	}
	i := Item{Label: "watchdog"}
	fault := func(t *trouble.Trouble, text string) { i.fault(t, i.Label, text) }
	i.say(what + ":")
	switch {
	case w.GetDriver() == driverNone:
		fault(trouble.DryRun, "dry run, would be "+state.text)
	case state.fault != nil:
		fault(state.fault, state.text)
	default:
		i.say(state.text)
	}
	if w.GetError() != "" {
		fault(trouble.WatchdogFaulty, "- "+w.GetError())
	}
	if counting(w) {
		i.say(fmt.Sprintf("- timeout %s, last feed %s ago, slack %s", Exact(w.GetTimeout()), Ago(w.GetLastFeedAge()), Ago(w.GetSlack())))
	} else if w.GetDisarmReason() != "" {
		i.say("for " + w.GetDisarmReason())
	}
	if d := w.GetFiresWithin(); d != nil {
		i.say(fmt.Sprintf("- fires within %s, as measured", Exact(d)))
	}
	if text := barTexts[w.GetSentenceBar()]; text != "" && w.GetState() != fencingv1.WatchdogState_WATCHDOG_STATE_FAULTY {
		fault(trouble.NoSelfFence, "- announces no self-fence: "+text)
	}
	if w.GetNowayout() {
		fault(trouble.WatchdogNoWayOut, "- nowayout: cannot be disarmed")
	}
	if d := w.GetPretimeout().AsDuration(); d > 0 {
		i.say(fmt.Sprintf("- pretimeout %v", d))
	}
	if w.GetLastBootReset() {
		fault(trouble.ResetByWatchdog, "- this boot follows a reset by the watchdog")
	}
	p.add(i)
}

func budgetItems(p *Page, st *fencingv1.Status) {
	label := "time budget"
	for _, b := range budgets(st) {
		p.item(label, Span{b.name + ": " + sum(b.total, b.terms), Plain})
		label = ""
	}
}

// budget is a time after which a lost node has been reset, and its terms.
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
	// The loser of a tie runs until the later of two times: A after its evidence, or the end of a grant that is being
	// superseded.
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

// total returns the sum of the terms.
func total(terms []addend) (all time.Duration) {
	for _, t := range terms {
		all += t.AsDuration()
	}
	return all
}

// sum spells an addition out. The total is the agent's. If a later agent computes it in another way, no wrong
// arithmetic is shown.
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
		p.item("members", Span{fmt.Sprintf("%d nodes, %d needed; epoch %d, digest %s, source %s",
			r.GetSize(), r.GetQuorum(), r.GetEpoch(), OrUnknown(r.GetDigest()), OrUnknown(r.GetSource())), Plain})
		if r.GetChange() != "" {
			words := r.GetChange()
			if w := r.GetWaitingFor(); len(w) > 0 {
				words += "; waiting for " + strings.Join(w, ", ")
			}
			p.fault("change", trouble.ListChangeStuck, words)
		}
	}
	switch a := st.GetApi(); {
	case !a.GetConfigured():
		p.item("kube API", Span{"is not a tie-breaker here", Plain})
	case a.GetAge() == nil:
		p.item("kube API", Span{"not asked yet", Plain})
	case a.GetReachable():
		p.item("kube API", Span{"reachable " + Ago(a.GetAge()) + " ago", Plain})
	default:
		p.fault("kube API", trouble.APIUnreachable, "NOT REACHABLE "+Ago(a.GetAge())+" ago")
	}
}
