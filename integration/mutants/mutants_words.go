package main

import "strings"

// wordsMutants are the guards of what agents say that holds fencing by devices up (docs/adr/0065).
func wordsMutants() []mutant {
	const words, policy = "k8s/storm/words.go", "k8s/storm/policy.go"
	const said, read, slot = "cmd/fencing-agent/agent/kubesightings.go", "k8s/fencing/policy.go", "diskquorum/peerslot.go"
	list := []mutant{
		one("words", "a word of old counts for ever", words, "|| s.now.Sub(was.at) > wordLasts {", "{"),
		one("words", "a word is as old as its text was first", words, "!known || was.text != m.Words.Text || was.at.After(s.now)", "!known || was.at.After(s.now)"),
		one("words", "a clock that is set back keeps a word of old", words, " || was.at.After(s.now) {", " {"),
		one("words", "a Node that is silent has a say", words, "if m.Silent || m.Dead || m.Group == \"\" || s.now", "if m.Dead || m.Group == \"\" || s.now"),
		one("words", "a Node that is dead has a say", words, "if m.Silent || m.Dead || m.Group == \"\" || s.now", "if m.Silent || m.Group == \"\" || s.now"),
		one("words", "Nodes of no group are one", words, "|| m.Group == \"\" || s.now", "|| s.now"),
		one("words", "another group has a say", words, "o.Group == speaker.Group && ", "o.Group != \"-\" && "),
		one("words", "a node speaks of itself", words, "name != speaker.Name && ", ""),
		one("words", "one liar holds a node up for ever", words, "case len(by) == 1 && !s.fades(by[0]):", "case len(by) == 1:"),
		one("words", "one liar has a group without quorum for ever", words, " || s.fades(m.Name) {", " {"),
		one("words", "a liar that falls silent for a moment is new", words, "return s.now.Sub(c.last) > trusted ||", "return s.now.Sub(c.last) > 0 ||"),
		one("words", "what no policy goes by makes a claim old", words, "	if s.policy.SkipDisconnected {\n		of", "	if true {\n		of"),
		one("words", "two who say the same are two who claim something", words, "if len(by) == 1 && !s.members", "if !s.members"),
		one("words", "a liar that changes what it says is new", words, "OnlyWithQuorum {\n			stands(name)", "OnlyWithQuorum {\n			stands(name + \"/\")"),
		one("words", "two are not believed for longer than one", words, "case len(by) > 1:\n		return", "case len(by) > 1 && !s.fades(by[0]):\n		return"),
		one("words", "a slot that moves holds up what is proven", words, "!s.policy.SkipLeaseHeld || subject.Dead || subject.Isolated {", "!s.policy.SkipLeaseHeld || subject.Isolated {"),
		one("words", "a lost storage holds up what is proven", words, "!s.policy.SkipDisconnected || subject.Dead || subject.Isolated {", "!s.policy.SkipDisconnected || subject.Isolated {"),
		one("words", "a lost quorum holds up what is proven", words, "!s.policy.OnlyWithQuorum || subject.Dead ||", "!s.policy.OnlyWithQuorum ||"),
		one("words", "one that has quorum is not enough", words, "m.Silent || m.Dead {\n			continue", "m.Silent || m.Dead || !s.voices.starves[m.Name] {\n			continue"),
		one("words", "slots that move are no matter", policy, "s.leaseHeld, ", ""),
		one("words", "lost storages are no matter", policy, "s.disconnected, ", ""),
		one("words", "lost quorums are no matter", policy, ", s.withoutQuorum}", "}"),
		one("words", "what is isolated is held up by its slot", words, "!s.policy.SkipLeaseHeld || subject.Dead || subject.Isolated {", "!s.policy.SkipLeaseHeld || subject.Dead {"),
		one("words", "what is isolated has lost its storage", words, "!s.policy.SkipDisconnected || subject.Dead || subject.Isolated {", "!s.policy.SkipDisconnected || subject.Dead {"),
		one("words", "who has crashed is held up", "k8s/fencing/facts.go", "	if f.Crashed() {\n", "	if false {\n"),
		one("words", "notes of any length", read, "if len(note) <= mostNote {", "if true {"),
		one("words", "a policy cannot be switched off", read, "SkipLeaseHeld:  c.Cluster.SkipLeaseHeld,", "SkipLeaseHeld: true,"),
		one("words", "what was so for a moment is said", said, "if now.Sub(since[name]) >= sightingSteady {", "if true {"),
		one("words", "a loss of a moment is said", said, "s.starves && now.Sub(k.starves) >= sightingSteady,", "s.starves,"),
		one("words", "each change is a write", said, "|| !same && now.Sub(k.wrote) < sightingPause):", "):"),
		one("words", "it is said once", said, "|| now.Sub(k.wrote) < again)", "|| true)"),
		one("words", "an agent that starts takes back what it does not know yet", said, "now.Sub(k.began) < sightingTakeover:", "false:"),
		one("words", "all agents speak of slots", said, "return n <= sightingSpeakers ||", "return true ||"),
		one("words", "a fenced node's slot is said to move", said, "if p == r.Self || fenced.Has(p) {", "if p == r.Self {"),
		one("words", "a node that a network shows is unheard", said, "case moves && !view.Seen.Has(p):", "case moves:"),
		one("words", "a dead node has lost its storage", said, "case still && view.Seen.Has(p):", "case still:"),
		one("words", "a slot that nobody reads any more stands", slot, " || now.Sub(a.table.start) > a.readsGoOn() {", " {"),
		one("words", "a slot that was stopped stands still", slot, "e.status != slotKnown || e.record().State != SlotActive ||", "e.status != slotKnown ||"),
	}
	for i := range list {
		switch list[i].edits[0].file {
		case said:
			list[i].in = []string{"./cmd/fencing-agent/agent"}
		case read, "k8s/fencing/facts.go":
			list[i].in = []string{"./k8s/fencing"}
		case words, policy:
			if list[i].in = []string{"./k8s/storm"}; strings.Contains(list[i].name(), "is isolated") {
				list[i].in = []string{"./k8s/fencing"}
			}
		}
	}
	return append(list, toldWordsMutants()...)
}

// toldWordsMutants take away what holds words that agents tell a controller to what holds for those that they write.
func toldWordsMutants() []mutant {
	const kept, read = "k8s/sightings/kept.go", "k8s/fencing/policy.go"
	const desk, teller = "cmd/fencing-controller/members/sightings.go", "cmd/fencing-agent/members/sightings.go"
	list := []mutant{
		one("words", "a word of another boot counts", kept, "written != nil && written.Boot != boot {", "written != nil && written.Boot == \"\" {"),
		one("words", "what was told in another boot counts", kept, "told == nil || told.Boot != boot ||", "told == nil ||"),
		one("words", "what was told goes before what was written later", kept, "|| written != nil && !told.After(written) {", "{"),
		one("words", "what is told goes for nothing where something is written", kept, "|| written != nil && !told.After(written) {", "|| written != nil {"),
		one("words", "what is kept under another label is read", kept, "if labels[KeptLabel] != KeptValue {", "if false {"),
		one("words", "nobody listens to what is told", "k8s/fencing/runner.go", "	if err := r.hear(ctx, &list)", "	if err := error(nil)"),
		one("words", "a namespace of its own is not read", read, "	case r.Namespace:\n", "	case r.Namespace, \"elsewhere\":\n"),
		one("words", "a late report takes the place of a later one", desk, "		case !now.After(was):\n			return deaths.ErrOld\n", ""),
		one("words", "a report of another boot is kept", desk, "		case now.Boot != by.Boot:\n			return deaths.ErrOtherBoot\n", ""),
		one("words", "silence is written", desk, "		case now.Empty() && (was == nil || was.Empty()):\n			return nil\n", ""),
		one("words", "sightings have no pace", desk, "if !s.mayTell(\"sightings of \" + node) {", "if false {"),
		one("words", "sightings take the turn of deaths", desk, "s.mayTell(\"sightings of \" + node)", "s.mayTell(\"deaths of \" + node)"),
		one("words", "an agent tells in a quiet time", teller, "	silent := true // the", "	silent := false // the"),
		one("words", "what is kept counts for ever", kept, "now.Sub(heard).Abs() <= Fresh", "now.Sub(heard) >= -Fresh"),
		one("words", "what is kept counts without a time", kept, "return err == nil && now", "return err != nil || now"),
		one("words", "what is kept is not old", read, "sightings.IsFresh(o.Data, r.Now()) {", "true {"),
		one("words", "nobody writes when it was heard", desk, "	m.Data[sightings.HeardKey] = time.Now().UTC().Format(time.RFC3339)\n", "	_ = time.Now\n"),
		one("words", "what may have been told is not taken back", teller, "		silent = silent && status.Code(err) == codes.Unimplemented", "		_ = status.Code(err) == codes.Unimplemented"),
		one("words", "an older controller is asked to take back what it does not have", teller, "silent = silent && status.Code(err) == codes.Unimplemented", "silent = false && status.Code(err) == codes.Unimplemented"),
		one("words", "what was so before the wait is told", teller, "		value, _, n = t.wish()\n", ""),
	}
	for i := range list {
		switch list[i].edits[0].file {
		case desk:
			list[i].in = []string{"./cmd/fencing-controller/members"}
		case teller:
			list[i].in = []string{"./cmd/fencing-agent/members"}
		case kept:
			list[i].in = []string{"./k8s/sightings", "./k8s/fencing"}
		default:
			list[i].in = []string{"./k8s/fencing"}
		}
	}
	return list
}
