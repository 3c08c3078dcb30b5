package main

// listMutants take away what keeps a controller that lies, or is behind, from changing a group's list, and what keeps numbers from
// going back.
func listMutants() []mutant {
	const book, gate = "k8s/memberbook/book.go", "k8s/memberbook/gate.go"
	const hub, cluster = "cmd/fencing-controller/members/hub.go", "cmd/fencing-controller/members/cluster.go"
	const codec, server = "cmd/fencing-controller/members/codec.go", "cmd/fencing-controller/members/server.go"
	const versions, follower, known = "k8s/memberbook/versions.go", "cmd/fencing-agent/members/controller.go", "netgossip/roster/succession.go"
	const founding = "cmd/fencing-agent/members/members.go"
	const priority, looker = "cmd/fencing-agent/agent/disablepriority.go", "cmd/fencing-agent/agent/disablefile.go"
	list := []mutant{
		one("lists", "the number of a list goes back with the clock", book, "return max(previous+1, uint64(max(1, wall)))", "return uint64(max(1, wall))"),
		one("lists", "the number begins again where the book was lost", book, "return max(previous+1, uint64(max(1, wall)))", "return previous + 1"),
		one("lists", "an old book that came back is served on", book, "if same && book.Epoch >= f.Floor {", "if same {"),
		one("lists", "a first list leaves somebody out", book, "if len(missing) > 0 && book.Epoch == 0 {", "if false {"),
		one("lists", "a removal is written at once", book, "if left := Patience - (now - d.since); left > 0 {", "if left := Patience - (now - d.since); false {"),
		one("lists", "two members share an address", book, "twice := owner[network+\"=\"+a]; twice {", "twice := owner[network+\"=\"+a]; false && twice {"),
		one("lists", "an agent takes another group's list", gate, "case o.Group != g.Group:", "case false:"),
		one("lists", "an agent goes back to an older list", gate, "case o.Epoch < held.Epoch:", "case false:"),
		one("lists", "an agent takes another list under the same number", gate, "case o.Epoch == held.Epoch && r.Digest != held.Digest:", "case false:"),
		one("lists", "an agent takes numbers of any height", gate, "case int64(o.Epoch) < 0 || int64(o.Epoch) > most:", "case false:"),
		one("lists", "an agent takes a list that has it elsewhere", gate, "if r.Self >= 0 && !maps.Equal(", "if false && !maps.Equal("),
		one("lists", "an agent takes a list without most members", gate, "	case !s.Again:\n", "	case false:\n"),
		one("lists", "an agent takes a removal at once", gate, "if left := Patience - h.Now.Sub(g.since); left > 0 {", "if left := Patience - h.Now.Sub(g.since); false {"),
		one("lists", "an agent takes a list for what it says it is", gate, "case r.Digest != o.Digest || o.Epoch == 0:", "case o.Epoch == 0:"),
		one("lists", "a token of another audience counts", cluster, "!s.Authenticated || !slices.Contains(s.Audiences, audience)", "!s.Authenticated"),
		one("lists", "a token of any account counts", cluster, "	if !known {", "	if !known && audience == \"\" {"),
		one("lists", "a token that is bound to no node counts", cluster, "if len(claim) != 1 || claim[0] == \"\" {", "if len(claim) == 0 {"),
		one("lists", "who follows no more outweighs the book", hub, "if s := h.streams[node]; s != nil && s.group == group && s.told {", "if true {"),
		one("lists", "a slip of a hand in a book is taken for a number", codec, "case f.Epoch > latest:", "case false:"),
		one("lists", "who calls without a token of an agent has any number of them checked", server, "make(chan struct{}, mostReviews)", "make(chan struct{}, 1<<20)"),
		one("lists", "a replica that is behind shows the time before", versions, "if version == 0 || version >= v.known {", "if true {"),
		one("lists", "a cluster that was set back is never believed", versions, "if now.Sub(v.since) < SetBack {", "if true {"),
		one("lists", "numbers do not go on above the group's", book, "f.Floor = max(f.Floor, mostHave(", "_ = max(f.Floor, mostHave("),
		one("lists", "one agent that lies raises the numbers", book, "if n := len(have); n == 0 || n < 2 && 2*n < members {", "if n := len(have); n == 0 {"),
		one("lists", "the highest number that is told counts", book, "sorted[(len(sorted)-1)/2]; most", "sorted[len(sorted)-1]; most"),
		one("lists", "an agent refuses numbers above its group's", gate, "most = max(most, int64(h.Present.Epoch)+Stride)", "_ = int64(h.Present.Epoch) + Stride"),
		one("lists", "a number that a founder was shown keeps others out", gate, "if g.doubted = (roster.Ref{}); !h.Founding {", "if g.doubted = (roster.Ref{}); true {"),
		one("lists", "a stream that is dead writes the book", hub, "len(now) > 0 && !maps.Equal(now, before) {", "false && len(now) > 0 {"),
		one("lists", "a Node that went while nobody was followed is not missed", server, "	s.Hub.missing(st, uid)\n", "	_ = uid\n"),
		one("lists", "a replica that is behind calls a Node deleted", server, "	if err != nil || there {", "	if err != nil || there && err != nil {"),
		one("lists", "a list of the founding does not pass again", follower, "case c.taken != nil && c.taken.Waiting && !c.waits.Load():", "case false:"),
		one("lists", "a list of the founding counts with any number", founding, "if l.Waiting && !sighted {", "if false {"),
		one("lists", "lists without end are all kept", known, "for len(s.known) > maxKnown {", "for false {"),
		one("lists", "lists without end are all looked at", follower, "if now := c.clock(); c.judged != 0 && now.Sub", "if now := c.clock(); false && now.Sub"),
		one("lists", "silence about maintenance takes it back", priority, "if says[s] != silent {", "if true {"),
		one("lists", "one source takes over with a gap", priority, "if out[name] = \"\"; slices.Contains(of, source) {", "if slices.Contains(of, source) {"),
		one("lists", "two agents of one node end each other without a pause", follower, "if !answered || status.Code(err) == codes.Aborted {", "if !answered || !answered && status.Code(err) == codes.Aborted {"),
		one("lists", "a maintenance is promised that an annotation outweighs", looker, "by != \"\" && m.For > 0 {", "by != \"\" && m.For < 0 {"),
		one("lists", "a version out of range is newer than all others", cluster, "if v, err := strconv.ParseUint(n.ResourceVersion, 10, 64); err == nil {", "if v, _ := strconv.ParseUint(n.ResourceVersion, 10, 64); true {"),
		one("lists", "what cannot be looked at takes a no back", looker, "		f.none = was\n", ""),
		one("lists", "an off that cannot be read is maintenance", looker, "if err != nil && was {", "if false {"),
		one("lists", "what the unit wrote when the machine went down outlives a soft reboot", looker, "	f.endGoingDown()\n", ""),
		one("lists", "a start ends what somebody else wrote", looker, "	if err != nil || !ours {\n", "	if _, before = ours, \"\"; err != nil {\n"),
		one("lists", "a no of before a soft reboot is lost", looker, "	if err = f.remove(f.path); err == nil && before != \"\" {\n", "	if err = f.remove(f.path); false {\n"),
		one("lists", "a file of the stop that stays is not told of", looker, "		f.log.Warn(\"cannot remove the disable file of a shutdown", "		f.log.Debug(\"cannot remove the disable file of a shutdown"),
		one("lists", "an off is removed by fencectl", looker, "if saysOff(text) || err != nil && f.none {", "if false && (saysOff(text) || err != nil) {"),
		one("lists", "a node is told of another group", hub, "!(there && n.Group == group) && !listed", "!(there && n.Group != \"\") && !listed"),
	}
	for i := range list {
		list[i].in = []string{"./k8s/memberbook", "./cmd/fencing-controller/members"}
		switch list[i].edits[0].file {
		case follower, founding:
			list[i].in = []string{"./cmd/fencing-agent/members"}
		case priority, looker:
			list[i].in = []string{"./cmd/fencing-agent/agent"}
		case known:
			list[i].in = []string{"./netgossip/roster"}
		}
	}
	return list
}
