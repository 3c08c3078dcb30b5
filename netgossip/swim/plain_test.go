package swim_test

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
)

// greedy lists messages for which memberlist's decoder allocates the announced size.
var greedy = map[string][]byte{
	"ping with a time of 1 GiB":           {0, 0x81, 0xa1, 'x', 0xc9, 0x40, 0, 0, 0, 0xff},
	"ping with a string of 1 GiB":         {0, 0x81, 0xa4, 'N', 'o', 'd', 'e', 0xdb, 0x40, 0, 0, 0},
	"ack with bytes of 1 GiB":             {2, 0x81, 0xa7, 'P', 'a', 'y', 'l', 'o', 'a', 'd', 0xc6, 0x40, 0, 0, 0},
	"alive with an array of 1 Gi":         {4, 0x81, 0xa3, 'V', 's', 'n', 0xdd, 0x40, 0, 0, 0},
	"alive with a key of 1 GiB":           {4, 0x81, 0xdb, 0x40, 0, 0, 0, 'x'},
	"dead with 1 Gi pairs":                {5, 0xdf, 0x40, 0, 0, 0},
	"suspect with a map in it":            {3, 0x81, 0xa1, 'x', 0x81, 0xa1, 'y', 0xdb, 0x40, 0, 0, 0},
	"nack with an array for a map":        {11, 0xdd, 0x40, 0, 0, 0},
	"a ping in a compound":                {7, 1, 0, 12, 0, 0x81, 0xa4, 'N', 'o', 'd', 'e', 0xdb, 0x40, 0, 0, 0},
	"a ping in a compound in a compound":  {7, 1, 0, 16, 7, 1, 0, 12, 0, 0x81, 0xa4, 'N', 'o', 'd', 'e', 0xdb, 0x40, 0, 0, 0},
	"a compressed message":                {9, 0x82, 0xa4, 'A', 'l', 'g', 'o', 0, 0xa3, 'B', 'u', 'f', 0xa1, 0},
	"a table of a million nodes":          {6, 0x81, 0xa5, 'N', 'o', 'd', 'e', 's', 0xce, 0, 0x0f, 0xff, 0xff},
	"a table with 20 MB of user state":    {6, 0x81, 0xac, 'U', 's', 'e', 'r', 'S', 't', 'a', 't', 'e', 'L', 'e', 'n', 0xd2, 1, 0x30, 0, 0},
	"a node with a name of 1 GiB":         {6, 0x81, 0xa5, 'N', 'o', 'd', 'e', 's', 1, 0x81, 0xa4, 'N', 'a', 'm', 'e', 0xdb, 0x40, 0, 0, 0},
	"a second node with a name of 1 GiB":  {6, 0x81, 0xa5, 'N', 'o', 'd', 'e', 's', 2, 0x80, 0x81, 0xa4, 'N', 'a', 'm', 'e', 0xdb, 0x40, 0, 0, 0},
	"a user message of 20 MB on a stream": {8, 0x81, 0xaa, 'U', 's', 'e', 'r', 'M', 's', 'g', 'L', 'e', 'n', 0xd2, 1, 0x30, 0, 0},
	"an error of 1 GiB":                   {13, 0x81, 0xa5, 'E', 'r', 'r', 'o', 'r', 0xdb, 0x40, 0, 0, 0},
}

// onStreams lists those that only a stream may carry: in a packet, memberlist does not know them, or passes them on
// unread.
var onStreams = []byte{6, 8, 13}

// The announced size is not allocated if any sender may send a message.
func TestAnnouncedLengthsAreNotBelieved(t *testing.T) {
	from := net.UDPAddrFromAddrPort(fuzzPeer)
	for name, b := range greedy {
		if !slices.Contains(onStreams, b[0]) {
			t.Run(name+" in a packet", func(t *testing.T) {
				in, w, _ := fuzzed(t, true, false)
				for _, b := range [][]byte{b, append([]byte{12, 0, 0, 0, 0}, b...)} { // the checksum is verified later
					b = append(bytes.Clone(labelHeader), b...)
					bounded(t, func() {
						if in.Opens(b, fuzzPeer.Addr()) {
							t.Error("memberlist may have it")
							w.packets <- &memberlist.Packet{Buf: b, From: from, Timestamp: time.Now()}
							w.packets <- &memberlist.Packet{From: from}
						}
					})
				}
			})
		}
		if b[0] >= 3 && b[0] <= 5 || b[0] == 7 || b[0] == 11 {
			continue // memberlist knows none of these on a stream
		}
		t.Run(name+" in a stream", func(t *testing.T) {
			in, w, _ := fuzzed(t, false, false)
			bounded(t, func() {
				opened := newTape(append(bytes.Clone(labelHeader), b...))
				w.accepts <- opened
				<-opened.closed
			})
			bounded(t, func() {
				dialed := newTape(b)
				w.dialed <- dialed
				in.Join(1)
				<-dialed.closed
			})
			if got := in.Refused("malformed"); got != 2 {
				t.Errorf("refused %v times, of 2", got)
			}
		})
	}
}

// No frame of an agent without a key is refused, however a stream is divided.
func TestPlainFramesAreTaken(t *testing.T) {
	frames := record(t, nil)
	for _, cut := range []int{1, 7, 1 << 20} {
		synctest.Test(t, func(t *testing.T) {
			c := startCluster(t, 3, nil)
			c.awaitComplete(5 * time.Second)
			n1, from := c.nodes[0], netip.AddrPortFrom(memory(1), 999)
			at := netip.AddrPortFrom(n1.addr, testPort)
			packets, streams := 0, 0
			for _, f := range frames {
				switch {
				case !f.Stream:
					c.net.Inject(from, at, f.Data)
					packets++
				default:
					data := f.Data
					if !f.Dialed {
						data = slices.Concat(labelHeader, data)
					}
					conn, err := c.net.InjectStream(from, at)
					if err != nil {
						t.Fatal(err)
					}
					go io.Copy(io.Discard, conn)
					for part := range slices.Chunk(data, cut) {
						conn.Write(part)
					}
					synctest.Wait()
					conn.Close()
					streams++
				}
				synctest.Wait()
			}
			if packets < 100 || streams < 10 {
				t.Fatalf("%d packets and %d streams recorded", packets, streams)
			}
			if got := n1.refused(t, "malformed"); got != 0 {
				t.Errorf("in pieces of %d: %v frames refused", cut, got)
			}
		})
	}
}

// A longer list than ours is not an attack: the peer may have got it first. But it must be bounded.
func TestPlainTableOfALongerListIsTaken(t *testing.T) {
	for _, tc := range []struct{ nodes, name, refused int }{
		{nodes: 256, name: 250},
		{nodes: 3, name: 60000, refused: 1},
	} {
		in, w, _ := fuzzed(t, false, false)
		table := []byte{6, 0x81, 0xa5, 'N', 'o', 'd', 'e', 's', 0xd1, byte(tc.nodes >> 8), byte(tc.nodes)}
		for i := range tc.nodes {
			table = append(table, 0x81, 0xa4, 'N', 'a', 'm', 'e', 0xda, byte(tc.name>>8), byte(tc.name))
			table = append(table, bytes.Repeat([]byte{'a' + byte(i%26)}, tc.name)...)
		}
		opened := newTape(append(bytes.Clone(labelHeader), table...))
		w.accepts <- opened
		<-opened.closed
		if got := in.Refused("malformed"); got != float64(tc.refused) {
			t.Errorf("a table of %d nodes with names of %d bytes: refused %v times", tc.nodes, tc.name, got)
		}
	}
}
