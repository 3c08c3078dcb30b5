package gossipsim

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
)

// bench is a fabric with endpoints, in a bubble.
type bench struct {
	*fabric
	ends []memberlist.NodeAwareTransport // the endpoints of network 0
}

func newBench(t *testing.T, nodes int, base Link) *bench {
	t.Helper()
	b := &bench{fabric: newFabric(2, nodes, 1, base)}
	t.Cleanup(b.close)
	b.change(func() { b.open = true })
	for i := range nodes {
		b.ends = append(b.ends, b.end(t, 0, i))
	}
	return b
}

func (b *bench) end(t *testing.T, network, node int) memberlist.NodeAwareTransport {
	t.Helper()
	tr, err := b.listen(netip.AddrPortFrom(addrOf(network, node), port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Shutdown() })
	return tr
}

func (b *bench) send(t *testing.T, from, to int, packet string) {
	t.Helper()
	if _, err := b.ends[from].WriteTo([]byte(packet), netip.AddrPortFrom(addrOf(0, to), port).String()); err != nil {
		t.Fatal(err)
	}
}

// arrived returns what has arrived at a node so far.
func (b *bench) arrived(node int) (packets []*memberlist.Packet) {
	synctest.Wait()
	for {
		select {
		case p := <-b.ends[node].PacketCh():
			packets = append(packets, p)
		default:
			return packets
		}
	}
}

func TestTransport(t *testing.T) {
	for _, c := range netgossiptest.TransportCases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 2, Link{Delay: time.Millisecond})
				for _, e := range b.ends {
					e.Shutdown()
				}
				c.Run(t, b.listen, netip.AddrPortFrom(addrOf(0, 0), port), netip.AddrPortFrom(addrOf(0, 1), port))
			})
		})
	}
}

func TestAddressesRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(MaxNetworks, MaxNodes, 1, Link{})
		defer f.close()
		seen := map[netip.Addr]bool{}
		for k := range MaxNetworks {
			for i := range MaxNodes {
				a := addrOf(k, i)
				if network, node, ok := f.nodeAt(a); !ok || network != k || node != i || seen[a] {
					t.Fatalf("node %d on network %d has %v, which is node %d on %d", i, k, a, node, network)
				}
				seen[a] = true
			}
		}
		for _, foreign := range []string{"11.0.0.1", "10.9.0.1", "10.0.4.1", "10.0.0.0", "fe80::1"} {
			if _, _, ok := f.nodeAt(netip.MustParseAddr(foreign)); ok {
				t.Errorf("%s is taken for a node's address", foreign)
			}
		}
	})
}

func TestLossAndDuplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sent = 2000 // fewer than the queue holds, so that no other cause loses any
		for _, c := range []struct {
			link      Link
			low, high int
		}{
			{Link{}, sent, sent},
			{Link{Loss: 0.3}, 1250, 1550},
			{Link{Loss: 0.3, Duplicate: 0.2}, 1520, 1840},
			{Link{Cut: true}, 0, 0},
		} {
			b := newBench(t, 2, Link{})
			b.change(func() { b.lans[0].base = c.link })
			got := 0
			for range sent {
				b.send(t, 0, 1, "x")
				<-time.After(time.Millisecond)
				got += len(b.arrived(1))
			}
			if got < c.low || got > c.high {
				t.Errorf("%+v: %d of %d packets arrived, want %d to %d", c.link, got, sent, c.low, c.high)
			}
		}
	})
}

func TestDelayAndJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay, jitter = 5 * time.Millisecond, 3 * time.Millisecond
		b := newBench(t, 2, Link{Delay: delay, Jitter: jitter})
		least, most := time.Hour, time.Duration(0)
		for range 300 {
			at := time.Now()
			b.send(t, 0, 1, "x")
			took := (<-b.ends[1].PacketCh()).Timestamp.Sub(at)
			least, most = min(least, took), max(most, took)
		}
		if least < delay || most > delay+jitter+tick || most-least < jitter/2 {
			t.Errorf("packets took %v to %v", least, most)
		}
	})
}

func TestFaultsOfTheNetwork(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  Fault
		passes [2]bool // from 0 to 1, and from 1 to 0
	}{
		{"isolate", Fault{Kind: Isolate, Nodes: []int{0}}, [2]bool{false, false}},
		{"unplug", Fault{Kind: Unplug, Nodes: []int{1}}, [2]bool{false, false}},
		{"mute", Fault{Kind: Mute, Nodes: []int{0}}, [2]bool{false, true}},
		{"deaf", Fault{Kind: Deaf, Nodes: []int{0}}, [2]bool{true, false}},
		{"one way", Fault{Kind: CutOneWay, Nodes: []int{0, 1}}, [2]bool{false, true}},
		{"partition", Fault{Kind: Partition, Sides: []int{0, 1, 1}}, [2]bool{false, false}},
		{"same side", Fault{Kind: Partition, Sides: []int{1, 1, 0}}, [2]bool{true, true}},
		{"crash", Fault{Kind: Crash, Nodes: []int{1}}, [2]bool{false, false}},
		{"another network", Fault{Kind: Isolate, Nodes: []int{0}, Networks: []int{1}}, [2]bool{true, true}},
		{"another node", Fault{Kind: Isolate, Nodes: []int{2}}, [2]bool{true, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 3, Link{})
				check := func(when string, want [2]bool) {
					t.Helper()
					b.send(t, 0, 1, "x")
					b.send(t, 1, 0, "x")
					<-time.After(time.Millisecond)
					if got := [2]bool{len(b.arrived(1)) == 1, len(b.arrived(0)) == 1}; got != want {
						t.Errorf("%s: packets arrive %v, want %v", when, got, want)
					}
					conn, err := b.ends[0].DialTimeout(netip.AddrPortFrom(addrOf(0, 1), port).String(), 500*time.Millisecond)
					if streams := want[0] && want[1]; (err == nil) != streams {
						t.Errorf("%s: dialing gives %v", when, err)
					}
					if err == nil {
						conn.Close()
					}
				}
				check("before", [2]bool{true, true})
				b.change(func() { b.apply(&c.fault, true, Link{}) })
				check("during", c.passes)
				b.change(func() { b.apply(&c.fault, false, Link{}) })
				check("after", [2]bool{true, true})
			})
		})
	}
}

func TestCutBreaksStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3, Link{})
		conn, err := b.ends[0].DialTimeout(netip.AddrPortFrom(addrOf(0, 1), port).String(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		accepted := <-b.ends[1].StreamCh()
		if from := accepted.RemoteAddr().String(); from != conn.LocalAddr().String() || from != "10.0.0.1:7946" {
			t.Errorf("the stream is from %s", from)
		}
		f := Fault{Kind: Mute, Nodes: []int{2}}
		b.change(func() { b.apply(&f, true, Link{}) })
		go conn.Write([]byte("a"))
		if _, err := accepted.Read(make([]byte, 1)); err != nil {
			t.Fatalf("a fault of other nodes broke the stream: %v", err)
		}
		f = Fault{Kind: Mute, Nodes: []int{1}}
		b.change(func() { b.apply(&f, true, Link{}) })
		if _, err := accepted.Read(make([]byte, 1)); err == nil {
			t.Error("the stream outlives the cut")
		}
	})
}

func TestSlowNodesHoldPacketsBack(t *testing.T) {
	p := pauses{since: time.Second, blocked: 2 * time.Second, open: time.Second}
	for at, want := range map[time.Duration]time.Duration{
		0:                       0,
		999 * time.Millisecond:  999 * time.Millisecond,
		time.Second:             3 * time.Second,
		2900 * time.Millisecond: 3 * time.Second,
		3500 * time.Millisecond: 3500 * time.Millisecond,
		4 * time.Second:         6 * time.Second,
	} {
		if got := p.release(at); got != want {
			t.Errorf("what is ready at %v gets through at %v, want %v", at, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 2, Link{})
		f := Fault{Kind: Slow, Nodes: []int{0}, Blocked: 2 * time.Second, Open: time.Second}
		b.change(func() { b.apply(&f, true, Link{}) })
		start := time.Now()
		b.send(t, 0, 1, "out")
		b.send(t, 1, 0, "in")
		for i := range 2 {
			if took := (<-b.ends[i].PacketCh()).Timestamp.Sub(start); took != 2*time.Second {
				t.Errorf("node %d got its packet after %v", i, took)
			}
		}
	})
}

// A packet that finds the queue full is lost, and nobody waits for it.
func TestOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sent = 5000 // more than the queue holds
		b := newBench(t, 2, Link{})
		for range sent {
			b.send(t, 0, 1, "x")
		}
		<-time.After(time.Millisecond)
		if got, lost := len(b.arrived(1)), b.overflows(); lost == 0 || got+int(lost) != sent {
			t.Errorf("%d packets arrived and %d did not fit", got, lost)
		}
	})
}

func TestTrafficIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 2, Link{})
		evidence := string([]byte{wireLabel, 3, 'a', 'b', 'c', wireUserMsg, 1, 2})
		summed := string([]byte{wireLabel, 1, 'a', wireCRC, 0, 0, 0, 0, wireUserMsg, 1})
		for _, p := range []string{evidence, summed, "\x00ping", string([]byte{wireLabel, 200}), ""} {
			b.send(t, 0, 1, p)
		}
		got := b.sent()
		want := Traffic{Packets: 5, Bytes: 5*28 + 8 + 10 + 5 + 2, Evidence: 2, EvidenceBytes: 2*28 + 8 + 10}
		if got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
		conn, err := b.ends[0].DialTimeout(netip.AddrPortFrom(addrOf(0, 1), port).String(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		go func(c net.Conn) { c.Read(make([]byte, 3000)) }(<-b.ends[1].StreamCh())
		if _, err := conn.Write(make([]byte, 3000)); err != nil {
			t.Fatal(err)
		}
		// There are one SYN, three segments on each side for opening and closing, three with data, and two
		// acknowledgements.
		if got := b.sent().StreamBytes; got != 3000+(1+3+3+3+2)*tcpHeaders {
			t.Errorf("counted %d bytes in streams", got)
		}
	})
}
