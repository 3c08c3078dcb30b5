package netgossiptest

import (
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

type delivery struct {
	at     time.Duration // since the network's epoch
	seq    uint64        // orders what arrives at the same time
	to     netip.AddrPort
	packet *memberlist.Packet
	stream *stream
}

func (d *delivery) before(o *delivery) bool {
	return d.at < o.at || d.at == o.at && d.seq < o.seq
}

// schedule delivers now, or plans a delivery for later. Each instant that has deliveries gets a separate timer: if one
// timer were reset to an earlier time, the runtime would walk over all timers of a bubble each time, and there are tens
// of thousands. schedule and deliver are called with mu held.
func (n *Network) schedule(after time.Duration, d delivery) {
	if after <= 0 {
		n.deliver(&d)
		return
	}
	now := time.Since(n.epoch)
	n.seq++
	d.at, d.seq = now+after, n.seq
	if n.grain > 0 {
		d.at = (d.at + n.grain - 1) / n.grain * n.grain
	}
	n.queue.push(d)
	if _, ok := n.armed[d.at]; !ok {
		n.armed[d.at] = struct{}{}
		time.AfterFunc(d.at-now, n.deliverDue)
	}
}

func (n *Network) deliverDue() {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Since(n.epoch)
	for len(n.queue) > 0 && n.queue[0].at <= now {
		delete(n.armed, n.queue[0].at)
		d := n.queue.pop()
		n.deliver(&d)
	}
}

// deliver hands over to the endpoint that exists now, so that nothing arrives at a closed endpoint.
func (n *Network) deliver(d *delivery) {
	e := n.endpoints[d.to]
	if e == nil || !n.conditions.Receives(d.to.Addr()) {
		return
	}
	if d.stream != nil {
		select {
		case e.accepts <- d.stream:
		default:
			delete(n.streams, d.stream)
			d.stream.Conn.Close()
		}
		return
	}
	d.packet.Timestamp = time.Now()
	select {
	case e.packets <- d.packet:
	default:
		n.overflows++
	}
}

// deliveries is a binary heap by time. It is written out because container/heap would
// allocate for each packet.
type deliveries []delivery

func (q *deliveries) push(d delivery) {
	h := append(*q, d)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	*q = h
}

func (q *deliveries) pop() delivery {
	h := *q
	top, last := h[0], len(h)-1
	h[0] = h[last]
	h[last] = delivery{}
	h = h[:last]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < last; c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*q = h
	return top
}
