package main

const publicationGo = "watchdog/publication.go"

// lifeMutants are the guards of what subscribers hear of restarts, leaves and reboots.
func lifeMutants() []mutant {
	list := []mutant{
		one("restart", "a restart that was announced is LEFT", publicationGo, "anchor.Add(p.grace) > now {", "false {"),
		one("restart", "the grace never ends", publicationGo, "anchor.Add(p.grace) > now {", "anchor <= now {"),
		one("restart", "nobody wakes up when the grace ends", publicationGo, "			next = min(next, anchor.Add(p.grace))\n", "			_ = anchor\n"),
		one("restart", "who is away in its grace comes back as JOIN", publicationGo, "	c.fx.Joined = avail.Minus(shown.Minus(again))\n", "	c.fx.Joined = avail.Minus(shown.Minus(again).Minus(p.held))\n"),
		one("restart", "a leaving node is waited for", publicationGo, "avail.Minus(p.leaving).Minus(c.proof.parted())", "avail.Minus(c.proof.parted())"),
		one("restart", "a leave is taken for a restart", "netgossip/statement.go", "return s.Stopping && s.Feeding }", "return s.Stopping }"),
		one("restart", "a reboot that nobody noticed is kept from subscribers", publicationGo, "			p.rebooted.Add(i)\n", ""),
		one("restart", "an unknown boot is a reboot", publicationGo, "	case boot == 0 || boot == l.boot:\n", "	case boot == l.boot:\n"),
		one("restart", "two machines that answer as one are a storm of reboots", publicationGo, "	case boot == l.former:\n", "	case false:\n"),
		one("L9", "two machines that answer as one prove each other dead", "watchdog/proof.go", "	case st.Boot == w.death.Boot && w.death.Proof == ProofBoot, (w.twins || w.returned > 0) && st.Boot == w.former:\n", "	case false:\n"),
		one("restart", "a rebooted node that was LEFT before is LEFT again", publicationGo, "	c.fx.Left = gone.And(shown)\n", "	c.fx.Left = gone.And(shown).Union(p.rebooted)\n"),
		one("near a tie", "the API server is asked often at all times", "watchdog/breaker.go", "	c.fx.AskAPI = urgent\n", "	c.fx.AskAPI = true\n"),
		one("near a tie", "the API server is asked often only in a tie", "watchdog/breaker.go", " || counted < n && counted-n/2 <= max(1, n/10)\n", " || counted > n\n"),
		one("near a tie", "an answer of the time when none was needed stands in a tie", "watchdog/breaker.go", "(a.urgent == 0 || now < a.urgent.Add(apiFirst))", "true"),
	}
	for i := range list {
		list[i].in = []string{"./watchdog"}
	}
	agent := []mutant{
		one("restart", "a planned stop ends though a counted peer has not answered", "cmd/fencing-agent/agent/leaving.go", " && a.core.Released() && heard\n", " && a.core.Released() && (heard || true)\n"),
		one("clone", "a clone of the LUN is the LUN", "diskquorum/keeper/keeper.go", "	case k.wwid != \"\" && wwid(dev) != \"\" && wwid(dev) != k.wwid:\n", "	case false:\n"),
	}
	for i := range agent {
		agent[i].in = []string{"./cmd/fencing-agent/agent"}
	}
	list = append(list, agent...)
	order := one("L2", "what a node said before replaces what it has said since", "netgossip/merge.go", " && !a.Statement.outdated(p.statement) {", " {")
	order.in = []string{"./netgossip"}
	return append(list, order)
}
