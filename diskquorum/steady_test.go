package diskquorum

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/integration/race"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

// steady is one node of a large complete group, on a LUN that answers within a millisecond. Each of the other slots has
// a record that does not change.
type steady struct {
	roster *roster.Roster
	images [][]byte
	arb    *Arbiter
	now    boottime.Instant
	input  Input
	out    *Output
	echoes bool // it writes and reads echo blocks

	writes, reads, bytes []int // by device
}

// Statement is the evidence: nothing was heard of anybody.
func (s *steady) Statement(int) (*netgossip.Statement, boottime.Instant) { return nil, 0 }

// Relay is the evidence: nothing was heard of anybody.
func (s *steady) Relay(int) netgossip.Relay { return netgossip.Relay{} }

func newSteady(t testing.TB, n, devices int, echoes bool) *steady {
	t.Helper()
	members := make([]roster.Member, n)
	for i := range members {
		members[i].Name = fmt.Sprintf("node-%03d", i)
	}
	list, err := roster.New(1, members, members[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	s := &steady{
		roster: list, now: boottime.Instant(time.Hour),
		echoes: echoes, writes: make([]int, devices), reads: make([]int, devices), bytes: make([]int, devices),
	}
	var sbs []*Superblock
	for d := range devices {
		sb := &Superblock{Version: FormatVersion, ID: sampleID, Cluster: "c", NodeGroup: "g", Slots: n}
		if sb.ID[15] += byte(d); devices > 1 {
			sb.SetID, sb.Devices, sb.Device = sampleID, devices, d
		}
		image := make([]byte, DeviceSize(n))
		for which := range superblockBlocks {
			if err := EncodeSuperblock(image[which*BlockSize:(which+1)*BlockSize], sb, which); err != nil {
				t.Fatal(err)
			}
		}
		for i := 1; i < n; i++ {
			for sequence := uint64(20); sequence < 22; sequence++ {
				rec := Slot{Index: i, State: SlotActive, Sequence: sequence, NodeName: members[i].Name, Process: 7, RosterIndex: i, RosterSize: n}
				rec.Statement = netgossip.Statement{Boot: 9, Token: Token{Nonce: 9, Counter: 1}, RosterEpoch: 1, RosterDigest: list.Digest, View: roster.FullSet(n)}
				off := SlotOffset(i, int(sequence%2))
				if err := EncodeSlot(image[off:off+BlockSize], sb.ID, &rec, int(sequence%2)); err != nil {
					t.Fatal(err)
				}
			}
		}
		sbs, s.images = append(sbs, sb), append(s.images, image)
	}
	s.arb = NewArbiter(ArbiterConfig{Devices: sbs, Roster: list, Evidence: s, NodeUID: "uid", Boot: 1, Process: 1, Timing: rigTiming(), Seed: 1})
	s.input = Input{Input: tie.Input{View: roster.FullSet(n)}}
	return s
}

// step steps the arbiter and completes its I/Os until it requests none.
func (s *steady) step() {
	next := func() *Output {
		if out := s.arb.Step(s.now, &s.input); !s.echoes {
			return out
		}
		return s.arb.Testify(s.now, &Testimony{Settled: true, Lives: true, View: s.input.View})
	}
	for s.out = next(); len(s.out.Ops) > 0 || s.out.Lock >= 0; s.out = next() {
		if s.out.Lock >= 0 {
			for d := range s.images {
				s.arb.Locked(s.now, d, nil)
			}
		}
		begun := s.now
		s.now += boottime.Instant(time.Millisecond)
		for _, op := range s.out.Ops {
			c := Completion{ID: op.ID, Device: op.Device, Kind: op.Kind, Started: begun, Ended: s.now}
			if op.Kind == OpWrite {
				copy(s.images[op.Device][op.Offset:], op.Data)
				s.writes[op.Device]++
				s.bytes[op.Device] += len(op.Data) + len(op.Beside)
				if op.Beside != nil {
					copy(s.images[op.Device][op.BesideAt:], op.Beside)
					s.writes[op.Device]++
				}
			} else {
				c.Data = s.images[op.Device][op.Offset : op.Offset+int64(op.Length)]
				s.reads[op.Device]++
				s.bytes[op.Device] += op.Length
			}
			if op.Own {
				c.Own = s.images[op.Device][:OwnSize]
				s.reads[op.Device]++
				s.bytes[op.Device] += OwnSize
			}
			s.arb.Complete(s.now, &c)
		}
	}
}

// run advances the clock by d, and resets the counts first.
func (s *steady) run(d time.Duration) {
	clear(s.writes)
	clear(s.reads)
	clear(s.bytes)
	for end := s.now.Add(d); s.now < end; s.now += boottime.Instant(50 * time.Millisecond) {
		s.step()
	}
}

// While all members are in view, a node reads the superblock and writes its slot once per heartbeat, on each device,
// whatever the size of the group. Every tenth read is of the whole table. If echo blocks are also used, each of their
// rounds goes together with a heartbeat, so they need no extra read of the superblock.
func TestSteadyStateIO(t *testing.T) {
	for _, n := range []int{2, 16, 64, 255} {
		for _, devices := range []int{1, 3} {
			for _, echoes := range []bool{false, true} {
				s := newSteady(t, n, devices, echoes)
				s.run(30 * time.Second)
				if !s.out.Healthy {
					t.Fatalf("n=%d: %s", n, s.arb.trouble(s.now))
				}
				const beats = 200
				s.run(beats * s.arb.timing.Heartbeat)
				writes, reads := beats, beats
				if rounds := beats * int(s.arb.timing.Heartbeat) / int(s.arb.echoPace()); echoes {
					writes, reads = beats+rounds, beats+rounds-beats/fullViewReadEvery
				}
				for d := range devices {
					t.Logf("n=%d, device %d of %d, echo blocks %v: %.2f writes, %.2f reads, %d bytes per heartbeat", n, d+1, devices, echoes,
						float64(s.writes[d])/beats, float64(s.reads[d])/beats, s.bytes[d]/beats)
					if s.writes[d] > writes+1 || s.writes[d] < writes*9/10 || s.reads[d] > reads+2 || s.reads[d] < reads*9/10 {
						t.Errorf("n=%d, device %d of %d, echo blocks %v: %d writes and %d reads in %d heartbeats", n, d+1, devices, echoes, s.writes[d], s.reads[d], beats)
					}
				}
			}
		}
	}
}

// A steady state allocates nothing, not even for reads of a full table.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	if race.Detector {
		t.Skip("the race detector allocates")
	}
	for _, devices := range []int{1, 3} {
		s := newSteady(t, 255, devices, false)
		s.run(10 * time.Second)
		if n := testing.AllocsPerRun(20, func() { s.run(s.arb.timing.Heartbeat) }); n > 0 {
			t.Errorf("%d devices: %.1f allocations per heartbeat", devices, n)
		}
	}
}

// BenchmarkTable measures the handling of a read of a full table: checksums, parsing, comparison with the previous
// read.
func BenchmarkTable(b *testing.B) {
	for _, n := range []int{16, 255} {
		for _, devices := range []int{1, 3} {
			b.Run(fmt.Sprintf("slots=%d/devices=%d", n, devices), func(b *testing.B) {
				s := newSteady(b, n, devices, false)
				s.run(10 * time.Second)
				b.SetBytes(int64(devices * TableSize(n)))
				b.ReportAllocs()
				for b.Loop() {
					var from deviceSet
					s.now++
					for d := range devices {
						if err := s.arb.table.take(&Completion{Device: d, Kind: OpRead, Started: s.now, Ended: s.now, Data: s.images[d][:TableSize(n)]}); err != nil {
							b.Fatal(err)
						}
						from.add(d)
					}
					s.arb.table.merge(from, s.now, s.now)
				}
			})
		}
	}
}

// BenchmarkView measures the evaluation of a tie of 255: the half, the rivals, the holders.
func BenchmarkView(b *testing.B) {
	s := newSteady(b, 255, 1, false)
	s.run(10 * time.Second)
	view := roster.FullSet(127)
	b.ReportAllocs()
	for b.Loop() {
		_ = s.arb.rivalUnaware(view)
		_ = s.arb.table.log(&s.arb.ballot)
	}
}

// BenchmarkPeerSlot looks up the slots of all peers, like the core for peers that it does not see.
func BenchmarkPeerSlot(b *testing.B) {
	s := newSteady(b, 254, 1, false)
	s.run(10 * time.Second)
	b.ReportAllocs()
	for b.Loop() {
		for p := range s.roster.Members {
			if _, ok := s.arb.PeerSlot(s.roster.Name(p)); !ok {
				b.Fatal("no slot")
			}
		}
	}
}
