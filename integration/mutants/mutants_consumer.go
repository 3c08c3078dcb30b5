package main

// consumerMutants are the rules of docs/consumers.md, as client.FollowDeaths and client.WaitFenced keep them.
func consumerMutants() []mutant {
	const file = "api/client/deaths.go"
	of := func(what, from, to string) mutant {
		m := one("consumer", what, file, from, to)
		m.in = []string{"./api/client"}
		return m
	}
	return []mutant{
		of("the word of an agent that is silent counts", "case !u.InForce || u.Err != nil:", "case u.Status == nil:"),
		of("what stands still decides", "case st.GetTime() == nil || now.Sub(st.GetTime().AsTime()).Abs() > staleAfter:", "case st.GetTime() == nil:"),
		of("who is about to be reset is believed", "case fencingv1.Permission_PERMISSION_UNSPECIFIED, fencingv1.Permission_PERMISSION_STARVE:", "case fencingv1.Permission_PERMISSION_UNSPECIFIED:"),
		of("quorum is not needed", "	if !u.MayAct() {\n		return ErrNoQuorum\n	}\n", ""),
		of("another name will do", "return n.GetName() == node }", "return strings.HasPrefix(n.GetName(), node) }"),
		of("an agent speaks of its own node", "		case node == u.Status.GetSelf().GetName():\n			return ProvenDeath{}, ErrOwnNode\n", ""),
		of("not to answer is to be fenced", "	case n.GetState() != fencingv1.NodeState_NODE_STATE_FENCED:\n		return ProvenDeath{}, ErrNotProven\n", ""),
		of("no proof is needed", "	case !named:\n", "	case !named && d.Boot != \"\":\n"),
		of("the boot that answers is dead", "	case n.GetReachable() && (last == boot || last == \"\"):\n		return ProvenDeath{}, ErrAnswers\n", ""),
		of("a token of zeros is another boot", "	if boot := n.GetToken().GetBootNonce(); strings.Trim(boot, \"0\") != \"\" {", "	if boot := n.GetToken().GetBootNonce(); boot != \"\" {"),
		of("another boot will do", "case named && d.Boot == boot && stands(n, d.Boot):", "case named && stands(n, d.Boot):"),
		of("a death that was contradicted holds when that boot is lost again", "case named && d.Boot == boot && stands(n, d.Boot):", "case named && d.Boot == boot:"),
		of("a status from the future counts", ".Abs() > staleAfter", " > staleAfter"),
		of("a boot that nobody has is waited for", "if boot != \"\" && !isBoot(boot) {", "if false {"),
		of("a death is told before it may be", "may := usable(u, now) == nil", "may := u.Status != nil"),
		of("a death is told again and again", " || b.find(name, d.Boot) >= 0 {", " {"),
		of("what the agent takes back stands", "		b.withdraw(&news, d.Node, d.Boot)\n", ""),
		of("an earlier boot that answers stays dead", "			b.withdraw(&news, name, lastBoot(n))\n", ""),
		of("a death of before a restart is not withdrawn", "			before.withdraw(&news, name, lastBoot(n))\n", ""),
		of("who is no member any more is remembered", "				delete(book, name)\n", ""),
	}
}
