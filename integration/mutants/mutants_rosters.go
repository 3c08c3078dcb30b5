package main

const (
	successionGo = "netgossip/roster/succession.go"
	advanceGo    = "netgossip/roster/succession_step.go"
	sightGo      = "netgossip/roster/succession_sight.go"
	handGo       = "netgossip/roster/succession_hand.go"
	joinGo       = "netgossip/roster/succession_join.go"
)

// rosterMutants are the guards of changing the list of members.
func rosterMutants() []mutant {
	const (
		net     = "./netgossip"
		list    = "./netgossip/roster"
		mergeGo = "netgossip/merge.go"
	)
	in := func(m mutant, pkg string) mutant {
		m.in = []string{pkg}
		return m
	}
	return []mutant{
		in(one("J", "a peer that goes by an unknown roster is counted", successionGo, "		if !holds {\n			return false\n		}", "		if !holds && false {\n			return false\n		}"), list),
		in(one("J", "an equal split counts while two lists are in force", "watchdog/rosters.go", "		if len(chain) > 1 {\n			return netgossip.Minority\n		}\n", ""), "./watchdog"),
		in(one("J", "a fresh node claims quorum", successionGo, "return !s.fresh && !s.Removed()", "return !s.Removed()"), list),
		in(one("J", "a removed node claims quorum", successionGo, "return !s.fresh && !s.Removed()", "return !s.fresh"), list),
		in(one("J", "a change is settled without a majority of the old list", advanceGo, "		if !s.majority(p, r, promised) {\n			return false\n		}\n", "		_, _ = r, promised\n"), list),
		in(one("J", "a change is settled by nodes that have not taken it up", advanceGo, "st.holds(top.Ref()) && s.Countable(&st)", "s.Countable(&st)"), list),
		in(one("J", "a majority of the new list is enough", advanceGo, "	for _, r := range s.chain {\n		if !s.majority(p, r, counted) {", "	for _, r := range s.chain[len(s.chain)-1:] {\n		if !s.majority(p, r, counted) {"), list),
		in(one("J", "a majority of the old list is enough", advanceGo, "	for _, r := range s.chain {\n		if !s.majority(p, r, counted) {", "	for _, r := range s.chain[:1] {\n		if !s.majority(p, r, counted) {"), list),
		in(one("J", "a stored offer is forgotten at a restart", successionGo, "		s.take(saved.Offer)\n", ""), list),
		in(one("J", "an offer is taken up while it is being replaced on disk", advanceGo, "		s.store, s.offer = offer, nil\n", "		s.store = offer\n"), list),
		in(one("J", "an offer counts that could not be stored", advanceGo, "	case err != nil:\n		s.dirty, s.joining", "	case err != nil && offer == nil:\n		s.dirty, s.joining"), list),
		in(one("J", "the word of a fresh node puts a list into force", advanceGo, "		if st.Fresh || base.Epoch < s.chain[0].Epoch", "		if base.Epoch < s.chain[0].Epoch"), list),
		in(one("J", "the list of a new node is in force by itself", successionGo, "own.Epoch != 0\n", "false\n"), list),
		in(one("J", "a list is founded by those who have met", sightGo, "members.Len() != list.Size() || !members.Minus(agree).IsEmpty()", "2*members.And(agree).Len() <= list.Size()"), list),
		in(one("J", "a list is founded without pledges", sightGo, "case members.Minus(pledged).IsEmpty():", "case true:"), list),
		in(one("J", "a list without the founders is founded", sightGo, "	if s.Unfounded() != \"\" {", "	if false {"), list),
		in(one("J", "one founder of several is enough", sightGo, "	if len(missing) == 0 {", "	if len(missing) < len(s.founders) {"), list),
		in(one("J", "without founders anything is founded", sightGo, "	if len(s.founders) == 0 {", "	if false {"), list),
		in(one("J", "who owes a pledge is waited for by nobody", advanceGo, "		if s.pledged() && st.Fresh && st.Offer != r.Ref() {", "		if false {"), list),
		in(one("J", "a pledge is given up for another list", sightGo, "s.founding() && !s.pledged() && !s.saving", "s.founding() && !s.saving"), list),
		in(one("J", "a pledge is forgotten at a restart", successionGo, "	} else if saved.Offer != nil {", "	} else if false {"), list),
		in(one("J", "a node that forgot everything is counted", successionGo, "ref.Epoch < chain[0].Epoch && !st.Fresh", "ref.Epoch < chain[0].Epoch"), list),
		in(one("J", "a node that begins in a tie says that the list of its configuration is in force", "watchdog/rosters.go", "	defer c.rosters.stand()\n", ""), "./watchdog"),
		in(one("J", "sets that count by another roster are read by this node's", mergeGo, "	if m.sameRoster(a.Statement) {\n		p.statement", "	if true {\n		p.statement"), net),
		in(one("J", "a fresh node puts a list into force", advanceGo, "			if !st.Fresh {\n				promised.Add(i)\n			}\n", "			promised.Add(i)\n"), list),
		in(one("J", "a chain that was stored replaces a list that is in force", joinGo, "	if s.joining = nil; !s.fresh || s", "	if s.joining = nil; false && s"), list),
		in(one("J", "a fresh node joins a chain that could not be stored", advanceGo, "	case s.joining != nil && err == nil:", "	case s.joining != nil:"), list),
		in(one("J", "a fresh node joins one that is fresh", joinGo, "		if st.Fresh || !st.holds(own) {", "		if !st.holds(own) {"), list),
		in(one("calm", "a change that cannot end holds up the next one", advanceGo, "len(s.chain) == 1 || s.stuck(p, s.offer)\n", "len(s.chain) == 1\n"), list),
		in(one("calm", "a list that cannot help is taken up beside a change", advanceGo, "r != nil && s.stuck(p, r)", "r != nil"), list),
		in(one("calm", "a change does not give way to a list that a peer knows which lacks one", advanceGo, " || s.lacks(p, more.Ref()))", ")"), list),
		in(one("calm", "a fresh node never joins a change", joinGo, "	if !s.fresh || s.founding() || s.offer != nil {", "	if true {"), list),
		in(one("calm", "a fresh node leaves a list by which it is counted", joinGo, "!st.Fresh && st.holds(s.chain[0].Ref())", "!st.Fresh && st.holds(s.chain[0].Ref()) && false"), list),
		in(one("calm", "an overtaken list is not handed over", handGo, "	if r.Ref() != s.past {", "	if true {"), list),
		in(one("calm", "a list that is not in force is handed to a node that it removes", handGo, "	if r.Ref() != s.past {", "	if false {"), list),
		in(one("calm", "a list is handed to a node that it removes, and no later one names", handGo, "	return later(s.offer)\n", "	return true\n"), list),
		in(one("calm", "a list is taken up before everybody has it", advanceGo, "			ready = false\n", "			_ = ready\n"), list),
		in(one("calm", "a list is stored that a counted node does not know", advanceGo, "		case s.Countable(&st):\n			all = false\n", "		case s.Countable(&st):\n			_ = all\n"), list),
		in(one("calm", "a list is stored by a node that is alone with it", advanceGo, "all && (behind || s.majority(p, s.chain[0], know))", "all && (know.Len() > 0 || behind)"), list),
		in(one("calm", "a node that was left behind waits for those it was left behind with", advanceGo, "all && (behind || s.majority(p, s.chain[0], know))", "all && (behind && false || s.majority(p, s.chain[0], know))"), list),
		in(one("calm", "a list that was missed is not handed over", handGo, "!st.Fresh && st.holds(ref)", "!st.Fresh && st.holds(ref) && false"), list),
		in(one("calm", "a list is handed over that nobody has taken up", handGo, "!st.Fresh && st.holds(ref)", "!st.Fresh"), list),
		in(one("calm", "a node gives a list that it has but stored", handGo, "	return s.chain\n", "	return s.held()\n"), list),
		in(one("calm", "a node is removed by what another one hands over", handGo, "	case !s.fresh && (r.Self < 0 || !s.Top().sameSelf(r)) && !s.overtaken(r):\n", "	case false:\n"), list),
		in(one("J", "a node that remembers nothing takes what others hand over", handGo, "	case s.fresh && r.Epoch >= s.chain[0].Epoch:\n		err", "	case false:\n		err"), list),
		in(one("J", "a text that is handed over counts with another digest", "netgossip/swim/handover.go", "	if r.Ref() != list {", "	if false {"), "./netgossip/swim"),
		in(one("calm", "a list that was left is brought back", sightGo, "!s.shown.current || len", "len"), list),
		in(one("calm", "a list is taken up that costs the quorum", advanceGo, "!after && (!taken || s.quorate(p, nil))", "!after && false"), list),
		in(one("J", "a fresh node that joins vouches for what it was told before", "watchdog/rosters.go", "c.carryOver(now, c.rosters.went)", "c.carryOver(now, listsOf(s))"), "./watchdog"),
		in(one("calm", "a removed node is not told", "watchdog/rosters.go", "	if !present.Covers(d) {", "	if true {"), "./integration/sim"),
	}
}
