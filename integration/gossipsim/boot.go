package gossipsim

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"reflect"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// bootSpread is the time over which the instances are started: those that start at one instant would tick in step
// forever.
const bootSpread = 500 * time.Millisecond

// bootLimit is the longest time until every instance knows all others.
const bootLimit = 20 * time.Second

// boot starts all nodes and makes every memberlist know all others at once. If the nodes joined, each would gossip
// about every other one, which is 16 million messages for 1000 nodes. Instead each instance gets one push/pull with the
// whole table, and forgets that its content is news. Until then the network is closed, so that no node is suspected
// before it has started.
func (w *world) boot() error {
	start := time.Now()
	for i, n := range w.nodes {
		time.Sleep(time.Until(start.Add(bootSpread * time.Duration(i) / time.Duration(len(w.nodes)))))
		if err := w.startNode(n, true); err != nil {
			return err
		}
	}
	for k := range w.cfg.Networks {
		state := tableOf(w.roster, k)
		for i := range w.nodes {
			if err := w.fab.inject(k, i, state); err != nil {
				return err
			}
		}
	}
	for _, n := range w.nodes {
		for k := range w.cfg.Networks {
			list, err := n.engine.list(k)
			if err != nil {
				return err
			}
			for list.NumMembers() < len(w.nodes) && !w.unformed {
				time.Sleep(time.Millisecond)
				if time.Since(start) <= bootLimit {
					continue
				}
				if w.method == Evidence {
					return errors.New("boot: memberlist does not accept the table that it was sent")
				}
				// A node that only counts may suspect others so quickly that the group is never complete.
				w.unformed = true
			}
			if err := forgetNews(list); err != nil {
				return err
			}
		}
	}
	w.acquaint()
	w.fab.change(func() { w.fab.open = true })
	return nil
}

// acquaint makes all nodes know each other's cookies and clocks. Otherwise each node would have to send a packet to
// every other one to ask for them.
func (w *world) acquaint() {
	for i, n := range w.nodes {
		a, ok := n.engine.(*agent)
		if !ok || a.doubts == nil {
			return
		}
		for j, other := range w.nodes {
			if i != j {
				a.doubts.Met(j, other.engine.(*agent).doubts, other.boot)
			}
		}
	}
}

// forgetNews empties the queue of messages that an instance is about to gossip.
func forgetNews(m *memberlist.Memberlist) error {
	f := reflect.ValueOf(m).Elem().FieldByName("broadcasts")
	if !f.IsValid() || f.Type() != reflect.TypeFor[*memberlist.TransmitLimitedQueue]() {
		return errors.New("boot: this version of memberlist keeps its broadcasts elsewhere: adapt forgetNews")
	}
	(*(**memberlist.TransmitLimitedQueue)(unsafe.Pointer(f.UnsafeAddr()))).Reset()
	return nil
}

// listOf returns the memberlist of a started instance, which swim rightly does not export.
func listOf(in *swim.Instance) (*memberlist.Memberlist, error) {
	f := reflect.ValueOf(in).Elem().FieldByName("list")
	if f.IsValid() && f.Type() == reflect.TypeFor[atomic.Pointer[memberlist.Memberlist]]() {
		if m := (*atomic.Pointer[memberlist.Memberlist])(unsafe.Pointer(f.UnsafeAddr())).Load(); m != nil {
			return m, nil
		}
	}
	return nil, errors.New("boot: swim.Instance keeps its memberlist elsewhere, or is not started: adapt listOf")
}

// inject opens a stream to a node in the name of the next node, and sends a push/pull message to it.
func (f *fabric) inject(network, node int, message []byte) error {
	next := (node + 1) % len(f.hosts)
	here, err := f.nets[network].InjectStream(netip.AddrPortFrom(addrOf(network, next), port), netip.AddrPortFrom(addrOf(network, node), port))
	if err != nil {
		return err
	}
	f.running.Go(func() {
		defer here.Close()
		_ = here.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := here.Write(message); err != nil {
			return // the boot notices that the table did not arrive
		}
		// The node sends its own table until it closes the stream.
		_, _ = io.Copy(io.Discard, here)
	})
	return nil
}

// tableOf returns a labelled push/pull message that lists all members of a network as alive. It is written by hand
// because no encoder is exported: a MessagePack map for the header, and one for each member.
func tableOf(r *roster.Roster, network int) []byte {
	label := labelOf(network)
	b := append([]byte{wireLabel, byte(len(label))}, label...)
	b = append(b, wirePushPull)
	b = append(b, 0x83) // a map of three entries
	b = packInt(packRaw(b, "Nodes"), r.Size())
	b = packInt(packRaw(b, "UserStateLen"), 0)
	b = append(packRaw(b, "Join"), 0xc2) // false
	versions := memberlist.DefaultLANConfig().BuildVsnArray()
	for i := range r.Size() {
		ip := addrOf(network, i).As4()
		b = append(b, 0x87) // a map of seven entries
		b = packRaw(packRaw(b, "Name"), r.Name(i))
		b = packRaw(packRaw(b, "Addr"), string(ip[:]))
		b = packInt(packRaw(b, "Port"), port)
		b = packRaw(packRaw(b, "Meta"), "")
		b = packInt(packRaw(b, "Incarnation"), 1)
		b = packInt(packRaw(b, "State"), int(memberlist.StateAlive))
		b = packRaw(packRaw(b, "Vsn"), string(versions))
	}
	return b
}

// packRaw appends a short string or byte string, and packInt appends a number below 2^16.
func packRaw(b []byte, s string) []byte { return append(append(b, 0xa0|byte(len(s))), s...) }
func packInt(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n))
}
