package lunadmin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

var testSB = diskquorum.Superblock{
	Version: diskquorum.FormatVersion, ID: [16]byte{0xAB, 1}, Cluster: "main", NodeGroup: "worker", Slots: 8, Created: 1_700_000_000,
}

func newLUN(t *testing.T) *diskquorumtest.LUN {
	t.Helper()
	l, err := diskquorumtest.NewFormattedLUN(&testSB, 1)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// put writes a record. If the other copy is blank, it also writes the record before it, unless the record can be the
// first one.
func put(t *testing.T, l *diskquorumtest.LUN, s *diskquorum.Slot) {
	t.Helper()
	before := *s
	before.Sequence--
	l.Modify(func(image []byte) {
		for _, s := range []*diskquorum.Slot{s, &before} {
			b := image[diskquorum.SlotOffset(s.Index, int(s.Sequence%2)):][:diskquorum.BlockSize]
			if s == &before && (firstNonZero(b) >= 0 || before.Sequence == 0) {
				return
			}
			if err := diskquorum.EncodeSlot(b, testSB.ID, s, int(s.Sequence%2)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// node returns the slot of node ni, in a roster of four with one digest.
func node(i int, sequence uint64) *diskquorum.Slot {
	return &diskquorum.Slot{
		Index: i, State: diskquorum.SlotActive, Sequence: sequence, NodeName: "n" + string(rune('0'+i)), NodeUID: "uid", Process: 7,
		RosterIndex: i, RosterSize: 4, HeartbeatInterval: time.Second, WallTime: 1_700_000_100_000,
		Statement: netgossip.Statement{
			Boot: 0xB0 + uint64(i), RosterEpoch: 3, RosterDigest: 0xD1, Token: diskquorum.Token{Nonce: 0xB0 + uint64(i), Counter: 5},
			Seen: roster.SetOf(1), View: roster.SetOf(0, 1, 3), Guard: netgossip.Guard{Armed: true, Fences: true, Timeout: 30 * time.Second},
			Feeding: true, LUNHealthy: true, Version: "v1",
		},
	}
}

func grant(tokens ...diskquorum.Token) *diskquorum.Grant {
	g := &diskquorum.Grant{RosterEpoch: 3, RosterDigest: 0xD1}
	for i, token := range tokens {
		g.Holders = append(g.Holders, diskquorum.Holder{Slot: uint8(i), Token: token})
	}
	return g
}

func at(seconds int64) func() time.Time {
	return func() time.Time { return time.Unix(seconds, 0) }
}

func lastPicture(t *testing.T, l *diskquorumtest.LUN, o InspectOptions) (last *Report, err error) {
	err = inspect(t.Context(), l.Client(), o, func(r *Report) error { last = r; return nil })
	return last, err
}

func inspectOnce(t *testing.T, l *diskquorumtest.LUN) *Report {
	t.Helper()
	r, err := lastPicture(t, l, InspectOptions{Count: 1, Now: at(1_700_000_160)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestInspectBlank(t *testing.T) {
	r := inspectOnce(t, newLUN(t))
	want := &Report{
		Superblock: SuperblockReport{
			Version: 1, ID: "ab010000000000000000000000000000", Cluster: "main", NodeGroup: "worker", Slots: 8,
			Created: "2023-11-14T22:13:20Z", Copies: [2]string{"valid", "valid"},
		},
		Opened: Opened{Warnings: []string{}}, Slots: []SlotReport{}, Lease: LeaseReport{Holders: []HolderReport{}, Complete: true}, Damage: []string{},
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v", r)
	}
}

func TestInspectSlot(t *testing.T) {
	l := newLUN(t)
	put(t, l, node(0, 4))
	put(t, l, node(0, 5)) // the newer copy counts
	put(t, l, node(1, 9))
	other := node(2, 1)
	other.Statement.RosterDigest, other.RosterIndex = 0xD2, 3 // another roster: its indices mean other nodes
	other.Statement.View = roster.SetOf(0, 3)
	put(t, l, other)
	r := inspectOnce(t, l)
	if len(r.Slots) != 3 {
		t.Fatalf("%d slots", len(r.Slots))
	}
	got, err := json.Marshal(r.Slots[0])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"slot":0,"state":"active","owner":"n0","uid":"uid","incarnation":"00000000000000b0","process":"0000000000000007",` +
		`"agentVersion":"v1","sequence":5,"token":"00000000000000b0/5","view":["n0","n1","#3"],"seen":["n1"],` +
		`"flags":{"feeding":true,"stopping":false,"lunHealthy":true,"apiReachable":false},` +
		`"watchdog":{"armed":true,"fences":true,"timeoutSeconds":30},"roster":{"index":0,"size":4,"epoch":3,"digest":"00000000000000d1"},` +
		`"heartbeatSeconds":1,"writtenAt":"2023-11-14T22:15:00Z","ageSeconds":60,` +
		`"ballot":{"instance":0,"mbal":0,"bal":0,"decidedInstance":0},"copies":["valid","valid"]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if v := r.Slots[2].View; !reflect.DeepEqual(v, []string{"#0", "n2"}) {
		t.Errorf("view in another roster: %q", v)
	}
	if c := r.Slots[2].Copies; c != [2]string{"blank", "valid"} {
		t.Errorf("copies of a slot written once: %v", c)
	}
}

func TestInspectDamage(t *testing.T) {
	l := newLUN(t)
	for i := range 5 {
		put(t, l, node(i%4, uint64(2+2*(i/4))))
		put(t, l, node(i%4, uint64(3+2*(i/4))))
	}
	newer := node(2, 4)
	newer.NodeName = "half"
	b := make([]byte, diskquorum.BlockSize)
	if err := diskquorum.EncodeSlot(b, testSB.ID, newer, 0); err != nil {
		t.Fatal(err)
	}
	l.Modify(func(image []byte) {
		image[0]++                                                                     // superblock A
		image[diskquorum.SlotOffset(1, 1)+700]++                                       // one copy of slot 1
		copy(image[diskquorum.SlotOffset(2, 0):], b[:512*3])                           // a write of slot 2 has not completed
		clear(image[diskquorum.SlotOffset(3, 0):diskquorum.SlotOffset(3, 1)])          // slot 3 has a blank copy
		image[diskquorum.SlotOffset(3, 1)]++                                           // and a corrupt one
		copy(image[diskquorum.SlotOffset(6, 0):], bytes.Repeat([]byte("garbage "), 8)) // slot 6 is garbage
	})
	r := inspectOnce(t, l)
	var got []string
	for _, s := range r.Slots {
		got = append(got, s.State+" "+s.Owner+" "+s.Copies[0]+"/"+s.Copies[1])
	}
	want := []string{"active n0 valid/valid", "active n1 valid/corrupt", "active n2 torn/valid", "unreadable  blank/corrupt", "unreadable  corrupt/blank"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("slots %q", got)
	}
	if r.Lease.Complete {
		t.Error("with unreadable slots the latest decision is called certain")
	}
	if len(r.Damage) != 4 || r.Damage[0] != "superblock copy A is corrupt" || r.Superblock.Copies != [2]string{copyCorrupt, copyValid} {
		t.Errorf("damage %q, copies %q", r.Damage, r.Superblock.Copies)
	}
}

// TestDamage: inspect and both modes of check report parts that agents cannot read as damage, but not a write under
// way.
func TestDamage(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(image []byte)
		want   []string
	}{
		{"none", func([]byte) {}, []string{}},
		{"never written", func(b []byte) { clear(b[diskquorum.SlotOffset(0, 0):]) }, []string{}},
		{"both copies of a slot", func(b []byte) { b[diskquorum.SlotOffset(1, 0)]++; b[diskquorum.SlotOffset(1, 1)]++ },
			[]string{"the state of slot 1 is unknown: its copies are corrupt and corrupt"}},
		{"one copy", func(b []byte) { b[diskquorum.SlotOffset(1, 1)]++ }, []string{"the state of slot 1 of n1 is unknown: its copies are valid and corrupt"}},
		{"a copy was zeroed", func(b []byte) { clear(b[diskquorum.SlotOffset(1, 1):diskquorum.SlotOffset(2, 0)]) },
			[]string{"the state of slot 1 of n1 is unknown: its copies are valid and corrupt"}},
		{"torn so far ahead that a record was lost", func(b []byte) {
			ahead := node(1, 41+1<<21)
			block := make([]byte, diskquorum.BlockSize)
			if err := diskquorum.EncodeSlot(block, testSB.ID, ahead, 1); err != nil {
				t.Fatal(err)
			}
			copy(b[diskquorum.SlotOffset(1, 1):], block[:2048])
		}, []string{"the state of slot 1 of n1 is unknown: its copies are valid and torn"}},
		{"the next write is under way", func(b []byte) {
			block := make([]byte, diskquorum.BlockSize)
			if err := diskquorum.EncodeSlot(block, testSB.ID, node(1, 42), 0); err != nil {
				t.Fatal(err)
			}
			copy(b[diskquorum.SlotOffset(1, 0):], block[:2048])
		}, []string{}},
		{"a copy of the superblock", func(b []byte) { b[diskquorum.BlockSize+100]++ }, []string{"superblock copy B is corrupt"}},
		{"a copy of the superblock, zeroed", func(b []byte) { clear(b[:diskquorum.BlockSize]) }, []string{"superblock copy A is blank"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLUN(t)
			put(t, l, node(0, 2))
			put(t, l, node(1, 41))
			l.Modify(c.damage)
			checked, err := check(t.Context(), l.Client(), CheckOptions{Count: 1})
			reads, err2 := check(t.Context(), l.Client(), CheckOptions{Count: 1, ReadOnly: true})
			if err := errors.Join(err, err2); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			for how, got := range map[string][]string{"inspect": inspectOnce(t, l).Damage, "check": checked.Damage, "check, reads": reads.Damage} {
				if !reflect.DeepEqual(got, c.want) {
					t.Errorf("%s, %s: %q, want %q", c.name, how, got, c.want)
				}
			}
		})
	}
}

func TestInspectLease(t *testing.T) {
	l := newLUN(t)
	decided := func(s *diskquorum.Slot, instance uint64, g *diskquorum.Grant) *diskquorum.Slot {
		s.Ballot = diskquorum.Ballot{Instance: instance, MBal: 3, Bal: 3, Value: g, DecidedInstance: instance, Decided: g}
		return s
	}
	old := grant(diskquorum.Token{Nonce: 1, Counter: 1})
	latest := grant(diskquorum.Token{Nonce: 0xB0, Counter: 5}, diskquorum.Token{Nonce: 0xB1, Counter: 4}, diskquorum.Token{Nonce: 1, Counter: 5},
		diskquorum.Token{Nonce: 0xB3, Counter: 5})
	put(t, l, decided(node(0, 2), 7, latest))
	put(t, l, decided(node(1, 2), 6, old))
	put(t, l, node(2, 2))
	r := inspectOnce(t, l)
	want := LeaseReport{Instance: 7, Complete: true, Holders: []HolderReport{
		{0, "n0", "00000000000000b0/5", "current"},
		{1, "n1", "00000000000000b1/4", "renounced"},
		{2, "n2", "0000000000000001/5", "gone"},
		{3, "", "00000000000000b3/5", "unknown"},
	}}
	if !reflect.DeepEqual(r.Lease, want) {
		t.Errorf("lease %+v", r.Lease)
	}

	proposing := node(2, 4)
	proposing.Ballot = diskquorum.Ballot{Instance: 8, MBal: 9, DecidedInstance: 7, Decided: latest}
	put(t, l, proposing)
	if inspectOnce(t, l).Lease.Undecided {
		t.Error("a ballot without value makes the lease undecided")
	}
	proposing.Sequence, proposing.Ballot.Bal, proposing.Ballot.Value = 6, 9, old
	put(t, l, proposing)
	if got := inspectOnce(t, l).Lease; !got.Undecided || got.Instance != 7 {
		t.Errorf("pending instance: %+v", got)
	}
	// The unreadable copy may be newer: so the token is not reported.
	l.Modify(func(image []byte) { image[diskquorum.SlotOffset(0, 1)] = 1 })
	if got := inspectOnce(t, l).Lease; got.Complete || got.Holders[0].State != "unknown" {
		t.Errorf("with a corrupt copy: %+v", got)
	}
}

func TestInspectMoving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLUN(t)
		slow := node(0, 2)
		slow.HeartbeatInterval = 4 * time.Second
		put(t, l, slow)
		put(t, l, node(1, 2))
		put(t, l, node(2, 2))
		l.Modify(func(image []byte) { image[diskquorum.SlotOffset(2, 0)]++; image[diskquorum.SlotOffset(2, 1)]++ })
		go func() {
			time.Sleep(7 * time.Second)
			put(t, l, node(1, 3))
			put(t, l, node(2, 4))
			put(t, l, node(3, 1))
		}()
		r, err := lastPicture(t, l, InspectOptions{Count: 2})
		if err != nil {
			t.Fatal(err)
		}
		if r.WatchedSeconds < 8 || r.WatchedSeconds >= 9 { // the damaged slot is read again for almost a second
			t.Errorf("watched for %v s, two of the slowest heartbeats are 8", r.WatchedSeconds)
		}
		var got []any
		for _, s := range r.Slots {
			if s.Moving == nil {
				got = append(got, "unknown")
			} else {
				got = append(got, *s.Moving)
			}
		}
		if !reflect.DeepEqual(got, []any{false, true, "unknown", true}) {
			t.Errorf("moving %v", got)
		}
	})
}

func TestInspectBadDevices(t *testing.T) {
	for _, c := range []struct {
		name string
		size int64
		f    func([]byte)
		want string
	}{
		{"empty", 0, nil, "the device has 0 bytes, too few for a LUN"},
		{"blank", mib, func([]byte) {}, "not formatted yet: run `fencectl lun init`"},
		{"garbage", mib, func(b []byte) { copy(b, bytes.Repeat([]byte{0xA7}, 8192)) }, "it holds data without a signature that is known; is the path right?"},
		{"foreign", mib, func(b []byte) { copy(b, "SBD_SBD_") }, "no usable fencing-agent superblock (superblock copy 0: no fencing-agent superblock): it holds sbd device at byte 0"},
		{"damaged", mib, func(b []byte) { copy(b, "FENCELUN") }, "it holds the rest of a LUN of this format without its superblock (fencing-agent LUN at byte 0)"},
		{"truncated", diskquorum.DeviceSize(testSB.Slots) - 1, func(b []byte) { copy(b, newLUN(t).Bytes()[:8192]) }, "truncated: 110591 bytes, the format's 8 slots need 110592"},
		{"two superblocks", mib, func(b []byte) {
			other := testSB
			other.ID[5]++
			_ = diskquorum.EncodeSuperblock(b[:diskquorum.BlockSize], &testSB, 0)
			_ = diskquorum.EncodeSuperblock(b[diskquorum.BlockSize:2*diskquorum.BlockSize], &other, 1)
		}, "the two superblock copies differ"},
	} {
		l := diskquorumtest.NewLUN(c.size, 1)
		if c.f != nil {
			l.Modify(c.f)
		}
		if r, err := lastPicture(t, l, InspectOptions{Count: 2}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
		if r, err := check(t.Context(), l.Client(), CheckOptions{Count: 1}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("check %s: %+v, %v", c.name, r, err)
		}
	}
}

func TestInspectWarnsOfTwins(t *testing.T) {
	l := newLUN(t)
	twin := node(3, 1)
	twin.NodeName = "n1\x1b[2J"
	put(t, l, twin)
	one := node(1, 1)
	one.NodeName = twin.NodeName
	put(t, l, one)
	free := node(2, 1)
	free.NodeName, free.State = twin.NodeName, diskquorum.SlotFree
	put(t, l, free)
	r := inspectOnce(t, l)
	if len(r.Warnings) != 1 || r.Warnings[0] != "n1\uFFFD[2J owns the slots [1 3]: two nodes use one name" {
		t.Errorf("warnings %q", r.Warnings)
	}
}

// TestHungDeviceCanBeLeft: the user can end a command even if its I/O hangs.
func TestHungDeviceCanBeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev := newLUN(t).Client()
		dev.Hang(diskquorumtest.HangBefore)
		for name, f := range map[string]func(context.Context) error{
			"inspect": func(ctx context.Context) error { return inspect(ctx, dev, InspectOptions{}, nil) },
			"check":   func(ctx context.Context) error { _, err := check(ctx, dev, CheckOptions{Count: 1}); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := f(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "interrupted") {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
		dev.Release(diskquorumtest.Lose)
	})
}
