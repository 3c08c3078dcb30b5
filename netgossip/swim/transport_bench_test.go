package swim

import (
	"io"
	"log"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
)

// stock opens memberlist's own transport, to compare with.
func stock(at netip.AddrPort) (memberlist.NodeAwareTransport, error) {
	return memberlist.NewNetTransport(&memberlist.NetTransportConfig{
		BindAddrs: []string{at.Addr().String()}, BindPort: int(at.Port()), Logger: log.New(io.Discard, "", 0),
	})
}

var transports = []struct {
	name   string
	listen Listener
}{{"sockets", Listen}, {"NetTransport", stock}}

// benchPacket has the size of a probe with its statement.
var benchPacket = make([]byte, 200)

// BenchmarkReceive measures a packet from a socket to memberlist's hands.
func BenchmarkReceive(b *testing.B) {
	for i, tr := range transports {
		b.Run(tr.name, func(b *testing.B) {
			at := netip.AddrPortFrom(netgossiptest.Loopback(220+i), transportPort)
			t, err := tr.listen(at)
			if err != nil {
				b.Fatal(err)
			}
			defer t.Shutdown()
			from, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
			if err != nil {
				b.Fatal(err)
			}
			defer from.Close()
			lost := time.NewTimer(time.Minute)
			defer lost.Stop()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := from.Write(benchPacket); err != nil {
					b.Fatal(err)
				}
				select {
				case <-t.PacketCh():
				case <-lost.C:
					b.Fatal("a packet was lost")
				}
			}
		})
	}
}

// BenchmarkSend measures a packet from memberlist's hands into the kernel.
func BenchmarkSend(b *testing.B) {
	for i, tr := range transports {
		b.Run(tr.name, func(b *testing.B) {
			t, err := tr.listen(netip.AddrPortFrom(netgossiptest.Loopback(222+i), transportPort))
			if err != nil {
				b.Fatal(err)
			}
			defer t.Shutdown()
			sink, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netgossiptest.Loopback(224+i), transportPort)))
			if err != nil {
				b.Fatal(err)
			}
			defer sink.Close()
			to := sink.LocalAddr().String()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := t.WriteTo(benchPacket, to); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A packet must cost memory of its own size, not of the largest one possible.
func TestReceivingMakesLittleGarbage(t *testing.T) {
	a, b := listenHere(t, 226, "", testLedger()), listenHere(t, 227, "", testLedger())
	const packets = 500
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range packets {
		send(t, a, b, benchPacket)
		take(t, b.PacketCh())
	}
	runtime.ReadMemStats(&after)
	if per := (after.TotalAlloc - before.TotalAlloc) / packets; per > 4<<10 {
		t.Errorf("%d bytes allocated for each packet of %d", per, len(benchPacket))
	}
}
