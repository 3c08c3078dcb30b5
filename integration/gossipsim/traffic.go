package gossipsim

const (
	udpHeaders  = 28   // IPv4 and UDP
	tcpHeaders  = 40   // IPv4 and TCP without options
	segmentSize = 1448 // payload of a full TCP segment
	handshake   = 3    // segments that each side needs to open and close a stream
)

// These are the first bytes of the packets of memberlist that matter here.
const (
	wirePushPull = 6
	wireUserMsg  = 8
	wireCRC      = 12
	wireLabel    = 244
)

// Traffic counts what one node sent.
type Traffic struct {
	Packets       uint64
	Bytes         uint64 // bytes of the packets, with the headers of IP and UDP
	Evidence      uint64
	EvidenceBytes uint64 // bytes of evidence packets, with headers
	StreamBytes   uint64 // payload and an estimate of the headers of segments
}

// packet counts one packet. A packet of our own protocol is a user message of memberlist that is sent alone.
func (t *Traffic) packet(b []byte) {
	size := uint64(len(b) + udpHeaders)
	t.Packets++
	t.Bytes += size
	if kindOf(b) == wireUserMsg {
		t.Evidence++
		t.EvidenceBytes += size
	}
}

func (t *Traffic) segments(n, payload int) { t.StreamBytes += uint64(n*tcpHeaders + payload) }

func (t *Traffic) add(o Traffic) {
	t.Packets += o.Packets
	t.Bytes += o.Bytes
	t.Evidence += o.Evidence
	t.EvidenceBytes += o.EvidenceBytes
	t.StreamBytes += o.StreamBytes
}

func (t Traffic) minus(o Traffic) Traffic {
	t.Packets -= o.Packets
	t.Bytes -= o.Bytes
	t.Evidence -= o.Evidence
	t.EvidenceBytes -= o.EvidenceBytes
	t.StreamBytes -= o.StreamBytes
	return t
}

func (t Traffic) total() uint64 { return t.Bytes + t.StreamBytes }

// kindOf returns memberlist's type of an unencrypted packet.
func kindOf(b []byte) int {
	if len(b) > 1 && b[0] == wireLabel {
		b = b[min(len(b), 2+int(b[1])):]
	}
	if len(b) > 5 && b[0] == wireCRC {
		b = b[5:]
	}
	if len(b) == 0 {
		return -1
	}
	return int(b[0])
}

// sent sums what all nodes have sent on all networks so far.
func (f *fabric) sent() Traffic {
	f.mu.Lock()
	defer f.mu.Unlock()
	var sum Traffic
	for k := range f.lans {
		for _, t := range f.lans[k].traffic {
			sum.add(t)
		}
	}
	return sum
}
