package gossip

import "github.com/hashicorp/memberlist"

// delegate is what memberlist calls.
type delegate struct{ g *Gossip }

// NodeMeta is the version of the program.
func (d delegate) NodeMeta(limit int) []byte {
	v := []byte(d.g.o.Version)
	return v[:min(len(v), limit)]
}

// NotifyMsg takes a message. It queues it: memberlist waits.
func (d delegate) NotifyMsg(text []byte) { d.take(text) }

// GetBroadcasts has none: messages go to each member by TCP.
func (d delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is what a replica that joins is told, and each one from time to time.
func (d delegate) LocalState(bool) []byte {
	m := d.g.o.State()
	text, err := Encode(m)
	if err != nil {
		d.g.o.Logger.Warn("the state was not sent", "err", err)
		return nil
	}
	d.g.o.Metrics.count(out, m.Kind, len(text))
	return text
}

// MergeRemoteState takes the state of another replica.
func (d delegate) MergeRemoteState(text []byte, _ bool) {
	if len(text) > 0 {
		d.take(text)
	}
}

func (d delegate) take(text []byte) {
	m, err := Decode(text)
	if err != nil {
		d.g.o.Metrics.refused.Inc()
		d.g.o.Logger.Debug("refused a message", "err", err)
		return
	}
	d.g.o.Metrics.count(in, m.Kind, len(text))
	d.g.o.Receive(m)
}

func (d delegate) NotifyJoin(n *memberlist.Node) {
	d.g.o.Logger.Info("a replica has joined", "member", n.Name, "address", n.Address(), "version", string(n.Meta))
	d.g.o.Changed()
}

func (d delegate) NotifyLeave(n *memberlist.Node) {
	d.g.o.Logger.Info("a replica is gone", "member", n.Name)
	d.g.o.Changed()
}

func (d delegate) NotifyUpdate(*memberlist.Node) {}
