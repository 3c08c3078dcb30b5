package agentsim

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

// longAge is a D_max that is so long that a few samples a second are enough.
const longAge = 40 * time.Second

// Sampled creates a schedule of a group that is large enough for random samples. On two networks nodes ask some of
// their peers, and no node tells the others that there is news. Most statements are therefore old, as in a group of a
// thousand, and a node that lacks claims about a death has to ask for them. In half of the groups no node condemns
// itself, so that deaths are proven by time. Nodes that are reset stay away for long enough for that.
func Sampled(seed uint64) Schedule {
	s := draw(seed, 9, 10, 11, 12, 13)
	rng := rand.New(rand.NewPCG(seed, 0x5a3))
	s.Networks, s.AllNetworks, s.Key, s.Quiet = 2, false, false, true
	for i := range s.Events {
		if n := s.Events[i].Networks; len(n) > 0 && rng.IntN(3) > 0 {
			s.Events[i].Networks = []int{0, 1}
		}
	}
	if rng.IntN(2) == 0 {
		s.NoSentence, s.Reboot = true, time.Duration(60+rng.IntN(60))*time.Second
		s.End += 40 * time.Second
	}
	return s
}

// selfFence returns the value of watchdog.selfFence in the configuration.
func (s *Schedule) selfFence() string {
	switch {
	case s.NoSentence:
		return "none"
	case s.LUNLoss:
		return "quorum-or-lun"
	}
	return "quorum"
}

// These are offsets in a packet of memberlist.
const (
	labelHeader = 244 // a length and the label follow
	userMessage = 8
	withSum     = 12 // an IEEE checksum of the rest comes next
	sumSize     = 4
)

// withoutNews removes from a packet the mark that makes its receiver ask for the sender's statement. Packets other than
// questions of the evidence protocol are not changed.
func withoutNews(b []byte) []byte {
	at := 0
	if len(b) > 2 && b[0] == labelHeader {
		at = 2 + int(b[1])
	}
	sum := 0
	if len(b) > at+1+sumSize && b[at] == withSum {
		sum, at = at+1, at+1+sumSize
	}
	body := at + 1 + sumSize // after memberlist's type, the protocol's own checksum
	if len(b) <= body || b[at] != userMessage {
		return b
	}
	var p wire.Packet
	if proto.Unmarshal(b[body:], &p) != nil || p.GetProbe().GetNews() == 0 {
		return b
	}
	p.GetProbe().News = 0
	text, err := proto.Marshal(&p)
	if err != nil {
		return b
	}
	out := append(bytes.Clone(b[:body]), text...)
	binary.LittleEndian.PutUint32(out[at+1:], crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
	if sum > 0 {
		binary.BigEndian.PutUint32(out[sum:], crc32.ChecksumIEEE(out[at:]))
	}
	return out
}
