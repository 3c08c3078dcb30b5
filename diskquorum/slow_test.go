package diskquorum

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// silent is a network without any statement.
type silent struct{}

func (silent) Statement(int) (*netgossip.Statement, boottime.Instant) { return nil, 0 }
func (silent) Relay(int) netgossip.Relay                              { return netgossip.Relay{} }

// slow is one of two nodes, with a device on which each I/O takes equally long.
type slow struct {
	a       *Arbiter
	image   []byte
	latency time.Duration
	now     boottime.Instant
	tied    boottime.Instant // since when there is a tie; zero: both are in contact
	op      *Op              // under way
	began   boottime.Instant
	always  bool // it also testifies while all are in view
}

func newSlow(latency time.Duration) *slow {
	sb := &Superblock{Version: FormatVersion, ID: [16]byte{1}, Cluster: "c", NodeGroup: "g", Slots: 2}
	s := &slow{image: make([]byte, DeviceSize(sb.Slots)), latency: latency, now: boottime.Instant(time.Hour)}
	for which := range superblockBlocks {
		if err := EncodeSuperblock(s.image[which*BlockSize:(which+1)*BlockSize], sb, which); err != nil {
			panic(err)
		}
	}
	s.a = NewArbiter(ArbiterConfig{Devices: []*Superblock{sb}, Roster: rigRoster(2, 0), Evidence: silent{}, Timing: rigTiming(), Boot: 7, Process: 99})
	return s
}

// step ends the I/O that is due, steps the arbiter, lets it testify in a tie, and advances the clock to the next event.
func (s *slow) step() tie.State {
	if s.op != nil && s.now >= s.began.Add(s.latency) {
		c := Completion{ID: s.op.ID, Kind: s.op.Kind, Started: s.began, Ended: s.now}
		if s.op.Kind == OpWrite {
			copy(s.image[s.op.Offset:], s.op.Data)
			copy(s.image[s.op.BesideAt:], s.op.Beside)
		} else {
			c.Data = slices.Clone(s.image[s.op.Offset : s.op.Offset+int64(s.op.Length)])
		}
		if s.op.Own {
			c.Own = slices.Clone(s.image[:OwnSize])
		}
		s.op = nil
		s.a.Complete(s.now, &c)
	}
	in := &Input{Own: netgossip.Statement{Boot: 7, RosterEpoch: s.a.roster.Epoch, RosterDigest: s.a.roster.Digest}}
	in.View, in.Tie, in.TieSince, in.Quorum = roster.SetOf(0, 1), s.tied != 0, s.tied, 2
	if in.Tie {
		in.View = roster.SetOf(0)
	}
	out := s.a.Step(s.now, in)
	split := out.Split
	if in.Tie || s.always {
		out = s.a.Testify(s.now, &Testimony{Lives: split == tie.Won, Settled: true, View: in.View})
	}
	if out.Lock >= 0 {
		s.a.Locked(s.now, 0, nil)
	}
	for _, op := range out.Ops {
		op.Data, op.Beside = slices.Clone(op.Data), slices.Clone(op.Beside)
		s.op, s.began = &op, s.now
	}
	next := min(out.Wake, s.now.Add(500*time.Millisecond))
	if s.op != nil {
		next = min(next, s.began.Add(s.latency))
	}
	s.now = max(next, s.now+1)
	return split
}

// On a slow device there is time for slots and echo blocks, and the lease has priority: a tie is decided, and the grant
// stays. After each write of the slot the table is read, whatever other I/O is due.
func TestSlowDeviceDecidesATie(t *testing.T) {
	for _, latency := range []time.Duration{5, 300, 500, 700, 900, 1100} {
		t.Run(fmt.Sprint(latency), func(t *testing.T) {
			s := newSlow(latency * time.Millisecond)
			for s.now < boottime.Instant(time.Hour+100*time.Second) {
				s.step()
			}
			s.tied = s.now
			won := boottime.Instant(0)
			for s.now < s.tied.Add(5*time.Minute) {
				switch split := s.step(); {
				case split == tie.Won && won == 0:
					won = s.now
				case split != tie.Won && won != 0:
					t.Fatalf("won after %v, and %v after %v", won.Sub(s.tied), split, s.now.Sub(s.tied))
				}
			}
			if won == 0 || won.Sub(s.tied) > 30*time.Second {
				t.Errorf("won after %v (0: never): %s", won.Sub(s.tied), s.a.out.Why)
			}
			if want := uint32(5 * time.Minute / (max(time.Second, 2*s.latency) + 300*time.Millisecond)); s.a.echo.count < want {
				t.Errorf("%d echo blocks were written, want %d", s.a.echo.count, want)
			}
		})
	}
}

// Guard: N1. While all members are in view, the table is read only with every tenth write, but echo blocks still get
// their turn between two writes of the slot.
func TestSlowDeviceHasTimeForVoices(t *testing.T) {
	for _, latency := range []time.Duration{5, 300, 600, 900} {
		s := newSlow(latency * time.Millisecond)
		s.always = true
		for s.now < boottime.Instant(time.Hour+100*time.Second) {
			s.step()
		}
		before, seq := s.a.echo.count, s.a.seq
		for end := s.now.Add(time.Minute); s.now < end; {
			s.step()
		}
		// An I/O on echo blocks and a write of the slot take turns, and a block takes a read and a write.
		want := min(55, uint32(time.Minute/(4*s.latency))-2)
		if echoes, slots := s.a.echo.count-before, s.a.seq-seq; echoes < want || slots < uint64(want) {
			t.Errorf("with I/O of %v: %d echo blocks and %d slots in a minute, want %d", s.latency, echoes, slots, want)
		}
	}
}
