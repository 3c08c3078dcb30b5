package watchdog

import (
	"cmp"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// slotRig is a core with a LUN in memory, on which every I/O completes at once.
type slotRig struct {
	*Core
	t     *testing.T
	sb    *diskquorum.Superblock
	image []byte

	interval time.Duration // heartbeat interval in the slots; 0: a second
	lifetime time.Duration // grant lifetime in the slots; 0: not stated
}

// withSlots opens a blank LUN for the core.
func withSlots(t *testing.T, c *Core) *slotRig {
	t.Helper()
	sb := &diskquorum.Superblock{Version: diskquorum.FormatVersion, Cluster: "c", NodeGroup: "g", Slots: c.cfg.Roster.Size()}
	sb.ID[0] = 1
	image := make([]byte, diskquorum.DeviceSize(sb.Slots))
	for which := range 2 {
		if err := diskquorum.EncodeSuperblock(image[which*diskquorum.BlockSize:(which+1)*diskquorum.BlockSize], sb, which); err != nil {
			t.Fatal(err)
		}
	}
	c.LUNOpened(diskquorum.NewArbiter(diskquorum.ArbiterConfig{
		Devices: []*diskquorum.Superblock{sb}, Roster: c.cfg.Roster, Evidence: c.Merger(), Boot: 100, Process: 1,
		Timing: diskquorum.Timing{
			Heartbeat: time.Second, IOTimeout: 2 * time.Second, MaxAge: 4 * time.Second, Grant: 5 * time.Second, Arbitrate: 10 * time.Second,
			Expire: 11 * time.Second, PreferenceDelay: 2 * time.Second, Stagger: time.Second, Takeover: 15 * time.Second,
		},
	}))
	return &slotRig{Core: c, t: t, sb: sb, image: image}
}

// put writes both copies of a peer's slot.
func (r *slotRig) put(p int, state diskquorum.SlotState, sequence uint64, st netgossip.Statement) {
	r.t.Helper()
	for _, sequence := range []uint64{sequence, sequence + 1} {
		s := diskquorum.Slot{
			Index: p, State: state, Sequence: sequence, NodeName: r.cfg.Roster.Name(p), Process: 7, RosterIndex: p, RosterSize: r.cfg.Roster.Size(),
			HeartbeatInterval: cmp.Or(r.interval, time.Second), GrantLifetime: r.lifetime, Statement: st,
		}
		at := diskquorum.SlotOffset(p, int(sequence%2))
		if err := diskquorum.EncodeSlot(r.image[at:at+diskquorum.BlockSize], r.sb.ID, &s, int(sequence%2)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// step steps the core and carries out its I/Os, and the I/Os that follow at once: a write follows the read of the
// superblock (B10).
func (r *slotRig) step(at boottime.Instant) *Effects {
	var told []Answer
	for again := 3; ; again-- {
		fx := r.Step(at)
		told = append(told, fx.Told...)
		for _, op := range fx.Ops {
			r.perform(at, &op)
		}
		if fx.Lock >= 0 {
			r.SlotLocked(at, 0, nil)
		}
		if len(fx.Ops) == 0 || again == 0 {
			last := *fx
			last.Told = told
			return &last
		}
	}
}

// perform does one I/O, which takes no time.
func (r *slotRig) perform(at boottime.Instant, op *diskquorum.Op) {
	done := diskquorum.Completion{ID: op.ID, Device: op.Device, Kind: op.Kind, Started: at, Ended: at}
	if op.Kind == diskquorum.OpRead {
		done.Data = append([]byte(nil), r.image[op.Offset:op.Offset+int64(op.Length)]...)
	} else {
		copy(r.image[op.Offset:], op.Data)
		copy(r.image[op.BesideAt:], op.Beside)
	}
	r.IOCompleted(at, &done)
}

// run steps four times a second, while peers answer.
func (r *slotRig) run(from, to boottime.Instant, st netgossip.Statement, peers ...int) {
	for at := from; at <= to; at += sec / 4 {
		for _, p := range peers {
			tell(r.Core, at, p, st)
		}
		r.step(at)
	}
}

// read steps until a read of the LUN that began at from or later has ended.
func (r *slotRig) read(from boottime.Instant) boottime.Instant {
	r.t.Helper()
	for at := from; at < from+30*sec; at += sec / 4 {
		if r.step(at); r.lun.arbiter.Status(at).LastRead == 0 && at > from {
			return at
		}
	}
	r.t.Fatal("the LUN is not read")
	return 0
}

// Guard: unless the victim's slot says that it is armed, a granted half proves nothing.
func TestSlotOfTheVictimIsAsked(t *testing.T) {
	for _, tc := range []struct {
		name string
		put  func(*slotRig)
		want bool
	}{
		{"it has none", func(*slotRig) {}, false},
		{"it is armed", func(r *slotRig) { r.put(4, diskquorum.SlotActive, 8, netgossip.Statement{Boot: 104, Guard: killing}) }, true},
		{"it is not armed", func(r *slotRig) { r.put(4, diskquorum.SlotActive, 8, netgossip.Statement{Boot: 104}) }, false},
	} {
		r := withSlots(t, mourners(t, netgossip.Statement{Guard: killing}, func(c *Config) { c.LUN = true }))
		tc.put(r)
		r.read(11 * sec)
		if _, got := judging(r.Core, r.Core.stepped).slotHorizon(4); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// Guard: the slot of a node in contact proves nothing. The node's next boot may write it, but a node is not called
// FENCED while there is evidence of it.
func TestSlotOfANodeInContactProvesNothing(t *testing.T) {
	r := withSlots(t, mourners(t, netgossip.Statement{Guard: killing}, nil))
	r.put(4, diskquorum.SlotActive, 8, netgossip.Statement{Boot: 104, Guard: killing})
	at := r.read(15 * sec)
	r.put(4, diskquorum.SlotActive, 10, netgossip.Statement{Boot: 105, Guard: killing})
	for end := at + 5*sec; at < end; at += sec / 4 {
		tell(r.Core, at, 4, netgossip.Statement{Guard: killing})
		if fx := r.step(at); fx.Fenced.Has(4) {
			t.Fatalf("in contact, and fenced: %+v", r.proof.Of(4))
		}
	}
	r.run(at, at+5*sec, netgossip.Statement{})
	if d := r.proof.Of(4); d.Proof != ProofBoot || d.Boot != 104 {
		t.Errorf("nobody hears it, and its slot shows another boot: %+v", d)
	}
}

// Guard: a copy of a machine answers like a rebooted one. If there is a LUN, another boot that answers proves the end
// of the former one only when the slot confirms it, or when the original has had the time to answer. If the original
// answers in that time, nothing is proven.
func TestOriginalHasTheTimeToAnswer(t *testing.T) {
	back := 11 * sec
	await := func(t *testing.T) *slotRig {
		r := withSlots(t, mourners(t, netgossip.Statement{Guard: killing, Machine: 7}, nil))
		tell(r.Core, back, 4, netgossip.Statement{Boot: 105, Machine: 7})
		if r.Step(back); r.proof.Of(4).Proof != 0 || !r.proof.waits {
			t.Fatalf("at once, with a LUN that was not read: %+v, waits %v", r.proof.Of(4), r.proof.waits)
		}
		if r.Step(back + 1); !r.lun.input.Look {
			t.Error("nobody looks at the slot that is waited for")
		}
		return r
	}
	late := back.Add(chanceDelay(5))
	r := await(t)
	if r.Step(late); r.proof.Of(4) != (Death{Proof: ProofBoot, Boot: 104, At: late}) {
		t.Errorf("nobody has answered: %+v", r.proof.Of(4))
	}
	r.Step(late + 1)
	if r.Step(late + 2); r.proof.waits || r.lun.input.Look || r.proof.Of(4).At != late {
		t.Errorf("the end is proven: waits %v, looks %v, at %v", r.proof.waits, r.lun.input.Look, r.proof.Of(4).At)
	}

	r = await(t)
	tell(r.Core, back+sec, 4, netgossip.Statement{Boot: 104, Machine: 7})
	r.Step(back + sec)
	if r.Step(late.Add(time.Minute)); r.proof.Of(4).Proof != 0 {
		t.Errorf("the original has answered: %+v", r.proof.Of(4))
	}

	r = await(t) // a third machine answers while the end of the first boot is awaited: no end is proven
	tell(r.Core, back+sec, 4, netgossip.Statement{Boot: 106, Machine: 8})
	r.Step(back + sec)
	if r.Step(late.Add(time.Minute)); r.proof.Of(4).Proof != 0 {
		t.Errorf("another machine has answered: %+v", r.proof.Of(4))
	}
}

// A boot that has the slot took it after it had not been written for a while: the former boot has ended, and no further
// read is needed.
func TestBootThatHasTheSlotIsBelievedAtOnce(t *testing.T) {
	r := withSlots(t, mourners(t, netgossip.Statement{Guard: killing}, nil))
	r.put(4, diskquorum.SlotActive, 8, netgossip.Statement{Boot: 105})
	at := r.read(15*sec) + 1
	tell(r.Core, at, 4, netgossip.Statement{Boot: 105})
	if r.Step(at); r.proof.Of(4) != (Death{Proof: ProofBoot, Boot: 104, At: at}) {
		t.Errorf("%+v", r.proof.Of(4))
	}
}
