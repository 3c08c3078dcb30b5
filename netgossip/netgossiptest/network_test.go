package netgossiptest

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
)

var (
	addrA = netip.MustParseAddrPort("10.0.0.1:7946")
	addrB = netip.MustParseAddrPort("10.0.0.2:7946")
	addrC = netip.MustParseAddrPort("10.0.0.3:7946")
)

func TestNetworkConforms(t *testing.T) {
	for _, c := range TransportCases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, NewNetwork(1).Listen, addrA, addrB) })
		})
	}
}

func arrived(tr memberlist.Transport) (n int) {
	synctest.Wait()
	for {
		select {
		case <-tr.PacketCh():
			n++
		default:
			return n
		}
	}
}

func sendN(t *testing.T, tr memberlist.Transport, n int, to netip.AddrPort) {
	t.Helper()
	for range n {
		if _, err := tr.WriteTo([]byte("x"), to.String()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCutIsDirected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(1)
		a, b := mustListen(t, n.Listen, addrA), mustListen(t, n.Listen, addrB)
		n.Cut(addrA.Addr(), addrB.Addr())
		sendN(t, a, 5, addrB)
		sendN(t, b, 5, addrA)
		if got := arrived(b); got != 0 {
			t.Errorf("%d packets crossed the cut", got)
		}
		if got := arrived(a); got != 5 {
			t.Errorf("%d of 5 packets came against the direction of the cut", got)
		}
		n.Heal()
		sendN(t, a, 5, addrB)
		if got := arrived(b); got != 5 {
			t.Errorf("%d of 5 packets arrived after healing", got)
		}
		if got := n.Sent(addrA); got != (Traffic{Packets: 10, Bytes: 10}) {
			t.Errorf("sent %+v", got)
		}
	})
}

func TestPartitionCutsGroupsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(1)
		a, b, c := mustListen(t, n.Listen, addrA), mustListen(t, n.Listen, addrB), mustListen(t, n.Listen, addrC)
		n.Partition([]netip.Addr{addrA.Addr(), addrB.Addr()}, []netip.Addr{addrC.Addr()})
		sendN(t, a, 1, addrB)
		sendN(t, a, 1, addrC)
		sendN(t, c, 1, addrB)
		if arrived(b) != 1 || arrived(c) != 0 {
			t.Error("the partition does not separate exactly the groups")
		}
	})
}

func TestLossIsSeeded(t *testing.T) {
	run := func(seed uint64) (pattern string) {
		synctest.Test(t, func(t *testing.T) {
			n := NewNetwork(seed)
			a, b := mustListen(t, n.Listen, addrA), mustListen(t, n.Listen, addrB)
			n.SetAll(Link{Loss: 0.3})
			for range 1000 {
				sendN(t, a, 1, addrB)
				pattern += string(rune('0' + arrived(b)))
			}
		})
		return pattern
	}
	one := run(1)
	if again := run(1); one != again {
		t.Error("one seed gave two patterns of loss")
	}
	if one == run(2) {
		t.Error("two seeds gave one pattern of loss")
	}
	lost := 0
	for _, c := range one {
		if c == '0' {
			lost++
		}
	}
	if lost < 220 || lost > 380 {
		t.Errorf("%d of 1000 packets lost at 30 %%", lost)
	}
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(1)
		a, b := mustListen(t, n.Listen, addrA), mustListen(t, n.Listen, addrB)
		n.SetLink(addrA.Addr(), addrB.Addr(), Link{Delay: 30 * time.Millisecond, Jitter: 10 * time.Millisecond})
		start := time.Now()
		sendN(t, a, 1, addrB)
		receive(t, b.PacketCh(), "packet")
		if d := time.Since(start); d < 30*time.Millisecond || d >= 40*time.Millisecond {
			t.Errorf("the packet took %v", d)
		}
		sendN(t, a, 1, addrB)
		b.Shutdown() // a packet in flight finds nobody
		time.Sleep(time.Second)
	})
}

func TestDialOverCutTimesOutAndHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(1)
		a, b := mustListen(t, n.Listen, addrA), mustListen(t, n.Listen, addrB)
		n.Cut(addrB.Addr(), addrA.Addr()) // one direction is enough to stop a handshake
		start := time.Now()
		if c, err := a.DialTimeout(addrB.String(), 2*time.Second); err == nil {
			c.Close()
			t.Fatal("dialed over a cut")
		}
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("the dial gave up after %v", d)
		}
		time.AfterFunc(500*time.Millisecond, n.Heal)
		c, err := a.DialTimeout(addrB.String(), 2*time.Second) // the second SYN gets through
		if err != nil {
			t.Fatal(err)
		}
		receive(t, b.StreamCh(), "stream")
		n.CutBoth(addrA.Addr(), addrB.Addr())
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("a stream survived the cut")
		}
	})
}

func TestShutdownEndsDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(1)
		a := mustListen(t, n.Listen, addrA)
		n.CutBoth(addrA.Addr(), addrB.Addr())
		done := make(chan error)
		go func() {
			_, err := a.DialTimeout(addrB.String(), time.Hour)
			done <- err
		}()
		synctest.Wait()
		start := time.Now()
		a.Shutdown()
		if err := <-done; err == nil || time.Since(start) != 0 {
			t.Errorf("the dial ended with %v after %v", err, time.Since(start))
		}
	})
}

func TestFullQueueDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(1)
		a, b := mustListen(t, n.Listen, addrA), mustListen(t, n.Listen, addrB)
		sendN(t, a, queueSize+7, addrB)
		if got := n.Overflows(); got != 7 {
			t.Errorf("%d overflows, want 7", got)
		}
		if got := arrived(b); got != queueSize {
			t.Errorf("%d packets arrived", got)
		}
	})
}

func TestDeliveriesAreOrdered(t *testing.T) {
	var q deliveries
	for i, at := range []time.Duration{5, 3, 9, 3, 1, 7, 3, 5} {
		q.push(delivery{at: at, seq: uint64(i)})
	}
	last := delivery{}
	for len(q) > 0 {
		d := q.pop()
		if d.before(&last) {
			t.Errorf("%v #%d after %v #%d", d.at, d.seq, last.at, last.seq)
		}
		last = d
	}
}
