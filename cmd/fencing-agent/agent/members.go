package agent

import (
	"net/netip"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/members"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// newMembers prepares the source of the lists of members. Its reports go into the mailbox, which exists before the
// source is started.
func (a *Agent) newMembers() *members.Members {
	told := a.published.unsaved.teller("list")
	a.kube.finds = members.NewFinds(a.tellFound, a.log)
	return members.New(members.Config{
		Config: a.cfg, Path: a.opts.ConfigPath, Source: a.opts.Members, Kube: a.kube.client, Logger: a.log, Clock: a.clock,
		Local: func(sn *config.SystemNetwork, listed netip.Addr) (netip.Addr, error) {
			l, err := a.opts.Links.Local(sn, listed)
			return l.Address, err
		},
		Node:     func(s ownnode.State) { a.kube.node.learn(s) },
		Reached:  func(is bool) { a.kube.unheard.Store(!is) },
		NodeUID:  func() string { return a.kube.node.uid() },
		Found:    a.kube.finds.Want,
		Registry: a.opts.Registry, Version: a.opts.Version,
		Waiting: a.serveWaiting,
		Listed:  func(l members.List) { a.box.put(func(b *batch) { b.lists = append(b.lists, l) }) },
		Saved: func(err error) {
			told(err)
			a.box.put(func(b *batch) { b.rosterSaved = append(b.rosterSaved, err) })
		},
		Fetch: func(holders []string, try int, list roster.Ref) {
			a.gossip.Fetch(holders, a.roster.Self, try, list)
		},
	})
}

// listed gives the core the lists that arrived, and the outcomes of writes.
func (a *Agent) listed(now boottime.Instant, b *batch) {
	for _, l := range b.lists {
		a.members.Learn(a.core, l)
	}
	for _, r := range b.handed {
		a.members.LearnHanded(now, a.core, r)
	}
	for _, err := range b.rosterSaved {
		a.core.Rosters().Succession().Saved(err)
	}
}
