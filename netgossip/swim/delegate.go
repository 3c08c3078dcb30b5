package swim

import (
	"bytes"
	"log/slog"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

// delegate implements the interfaces that memberlist calls. memberlist holds its node lock while it calls the methods
// for events and conflicts: they copy, post and return, and never call back.
type delegate struct{ in *Instance }

var (
	_ memberlist.Delegate         = delegate{}
	_ memberlist.EventDelegate    = delegate{}
	_ memberlist.ConflictDelegate = delegate{}
	_ memberlist.AliveDelegate    = delegate{}
)

// NotifyMsg handles a packet of the evidence protocol; the buffer belongs to memberlist.
func (d delegate) NotifyMsg(b []byte) {
	if len(b) == 0 || len(b) > wire.MaxSize {
		d.in.count.refused[refusedMalformed].add(1)
		return
	}
	d.in.evidence.post(arrival{packet: bytes.Clone(b), at: d.in.cfg.Clock()})
}

// NotifyJoin reports that a member is alive, again or for the first time.
func (d delegate) NotifyJoin(n *memberlist.Node) { d.memberChanged(n.Name, true) }

// NotifyLeave reports that a member is dead or has left. memberlist sends no event for a suspicion.
func (d delegate) NotifyLeave(n *memberlist.Node) { d.memberChanged(n.Name, false) }

// NotifyUpdate would report changed metadata of a member; members have none.
func (d delegate) NotifyUpdate(*memberlist.Node) {}

func (d delegate) memberChanged(name string, alive bool) {
	in := d.in
	index, ok := in.cfg.Roster.Index(name)
	if !ok {
		in.count.refused[refusedStranger].add(1)
		in.journal.warn("stranger member", "gossip has a node that is not on the list of members", slog.String("member", name))
		return
	}
	if index == in.cfg.Roster.Self {
		return
	}
	at := in.cfg.Clock()
	if !alive && !in.rejoin.leaving[index].Load() {
		at = at.Add(-in.cfg.Params.AccusedSince())
	}
	in.gate.pass(func() { in.cfg.Sink.MemberChanged(in.cfg.Network, index, alive, at) })
	in.rejoin.noteChange(index, alive)
	in.evidence.post(arrival{peer: index, dead: !alive, at: at})
}

// The rest of memberlist.Delegate is not used: statements travel in the evidence protocol, where their age is known.

func (d delegate) NodeMeta(int) []byte             { return nil }
func (d delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (d delegate) LocalState(bool) []byte          { return nil }
func (d delegate) MergeRemoteState([]byte, bool)   {}
