package lunadmin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
	"github.com/fencing-agent/fencing-agent/diskquorum/rawdev"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// lockable is a device in memory whose slots can be locked.
type lockable struct {
	*diskquorumtest.MemDevice
	err error
}

func (l lockable) LockSlot(int) error { return l.err }

// alive writes the slot of a node each heartbeat until the test ends.
func alive(t *testing.T, l *diskquorumtest.LUN, s *diskquorum.Slot) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sleep(ctx, s.HeartbeatInterval) == nil {
			s.Sequence++
			put(t, l, s)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// lonely returns a node that counts only itself.
func lonely(i int, sequence uint64) *diskquorum.Slot {
	s := node(i, sequence)
	s.Statement.Seen, s.Statement.View = roster.Set{}, roster.SetOf(i)
	return s
}

func slotNow(t *testing.T, l *diskquorumtest.LUN, i int) slotView {
	t.Helper()
	return readSlots(l.Bytes()[:diskquorum.TableSize(testSB.Slots)], &testSB)[i]
}

func TestReleaseProvenDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLUN(t)
		dead := node(2, 100)
		dead.Ballot = diskquorum.Ballot{Instance: 4, MBal: 9, Bal: 9, Value: grant(diskquorum.Token{Nonce: 1}), DecidedInstance: 3, Decided: grant(diskquorum.Token{Nonce: 7, Counter: 7})}
		put(t, l, dead)
		alive(t, l, lonely(1, 50))
		began := time.Now()
		r, err := release(t.Context(), lockable{MemDevice: l.Client()}, "/dev/lun", ReleaseOptions{Node: "n2", Slot: -1})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 53*time.Second {
			t.Errorf("released after %v, before the watchdog of its owner", took)
		}
		if r.Slot != 2 || r.Node != "n2" || len(r.Overridden) != 0 || len(r.Warnings) != 0 {
			t.Errorf("%+v", r)
		}
		v := slotNow(t, l, 2)
		s := v.record
		if s.State != diskquorum.SlotFree || v.copies != [2]string{copyValid, copyValid} || s.Sequence < 103 {
			t.Fatalf("copies %v, state %d, sequence %d", v.copies, s.State, s.Sequence)
		}
		if s.Statement.Token != dead.Statement.Token || s.Ballot.DecidedInstance != 3 || s.Ballot.Bal != 9 || s.Ballot.Instance != 4 {
			t.Errorf("the slot's part of the log was not kept: token %v, ballot %+v", s.Statement.Token, s.Ballot)
		}
	})
}

func TestReleaseRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		edit   func(t *testing.T, l *diskquorumtest.LUN, s *diskquorum.Slot)
		lock   error
		want   string
		forced bool // --force helps
	}{
		{"alive", func(t *testing.T, l *diskquorumtest.LUN, s *diskquorum.Slot) { alive(t, l, s) }, nil, "slot 2 of n2 is being written: its owner is alive", false},
		{"locked", nil, rawdev.ErrSlotLocked, "an agent on this host uses the slot", false},
		{"heard", func(t *testing.T, l *diskquorumtest.LUN, s *diskquorum.Slot) {
			w := lonely(1, 50)
			w.Statement.Seen = roster.SetOf(2)
			alive(t, l, w)
		}, nil, "n1 hears from n2", true},
		{"counted", func(t *testing.T, l *diskquorumtest.LUN, s *diskquorum.Slot) {
			w := lonely(1, 50)
			w.Statement.View = roster.SetOf(1, 2)
			alive(t, l, w)
		}, nil, "n1 hears from n2", true},
		{"no witness", func(t *testing.T, l *diskquorumtest.LUN, s *diskquorum.Slot) { put(t, l, lonely(1, 50)) }, nil, "no node can confirm that n2 is gone", true},
		{"unarmed", func(t *testing.T, l *diskquorumtest.LUN, s *diskquorum.Slot) {
			s.Statement.Guard.Armed = false
			put(t, l, s)
			alive(t, l, lonely(1, 50))
		}, nil, "no armed watchdog", true},
		{"does not fence", func(t *testing.T, l *diskquorumtest.LUN, s *diskquorum.Slot) {
			s.Statement.Guard.Fences = false
			put(t, l, s)
			alive(t, l, lonely(1, 50))
		}, nil, "no armed watchdog that fences", true},
		{"a copy hides", func(t *testing.T, l *diskquorumtest.LUN, s *diskquorum.Slot) {
			l.Modify(func(b []byte) { copy(b[diskquorum.SlotOffset(2, 1)+100:], "rubbish") })
			alive(t, l, lonely(1, 50))
		}, nil, "cannot be read: its contents may be newer", true},
	} {
		for _, force := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, force %v", c.name, force), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLUN(t)
					s := node(2, 100)
					put(t, l, s)
					if c.edit != nil {
						c.edit(t, l, s)
					}
					before := slotNow(t, l, 2)
					r, err := release(t.Context(), lockable{l.Client(), c.lock}, "/dev/lun", ReleaseOptions{Node: "n2", Slot: -1, Force: force})
					if force && c.forced {
						if err != nil || len(r.Overridden) == 0 || !strings.Contains(strings.Join(r.Overridden, ";"), c.want) {
							t.Fatalf("%v, %+v", err, r)
						}
						if v := slotNow(t, l, 2); v.record.State != diskquorum.SlotFree || v.hides() {
							t.Errorf("state %d, copies %v", v.record.State, v.copies)
						}
						return
					}
					refused := new(RefusedError)
					if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "nothing was written") {
						t.Fatalf("%v, want a refusal with %q", err, c.want)
					}
					if v := slotNow(t, l, 2); v.record != nil && v.record.Process != before.record.Process {
						t.Error("the slot was written")
					}
				})
			})
		}
	}
}

// A stopped agent has announced its stop: neither watchdog nor witness is needed.
func TestReleaseStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLUN(t)
		s := node(2, 5)
		s.State, s.Statement.Guard = diskquorum.SlotStopped, netgossip.Guard{}
		put(t, l, s)
		began := time.Now()
		if _, err := release(t.Context(), lockable{MemDevice: l.Client()}, "/dev/lun", ReleaseOptions{Node: "n2", Slot: -1}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
		if v := slotNow(t, l, 2); v.record.Sequence > firstWrites+2 {
			t.Errorf("sequence %d: a torn write of it would not be told from damage", v.record.Sequence)
		}
	})
}

// A slot that cannot be read at all gets the latest decision of the others.
func TestReleaseUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLUN(t)
		other := lonely(1, 50)
		other.Ballot = diskquorum.Ballot{DecidedInstance: 8, Decided: grant(diskquorum.Token{Nonce: 1})}
		put(t, l, other)
		l.Modify(func(b []byte) { copy(b[diskquorum.SlotOffset(6, 0):], "rubbish") })
		if _, err := release(t.Context(), lockable{MemDevice: l.Client()}, "/dev/lun", ReleaseOptions{Node: "n6", Slot: -1}); err == nil || !strings.Contains(err.Error(), "the slots [6] cannot") {
			t.Errorf("by name: %v", err)
		}
		if _, err := release(t.Context(), lockable{MemDevice: l.Client()}, "/dev/lun", ReleaseOptions{Slot: 6, Force: true}); err != nil {
			t.Fatal(err)
		}
		v := slotNow(t, l, 6)
		if v.hides() || v.record.State != diskquorum.SlotFree || v.record.Sequence < unreadableBase || v.record.Ballot.DecidedInstance != 8 {
			t.Errorf("copies %v, %+v", v.copies, v.record)
		}
	})
}

func TestReleaseNotThere(t *testing.T) {
	l := newLUN(t)
	put(t, l, node(1, 2))
	twin := node(3, 2)
	twin.NodeName = "n1"
	put(t, l, twin)
	for _, c := range []struct {
		o    ReleaseOptions
		want string
	}{
		{ReleaseOptions{Node: "n5", Slot: -1}, "n5 owns no slot here"},
		{ReleaseOptions{Node: "n1", Slot: -1}, "n1 owns the slots [1 3]"},
		{ReleaseOptions{Slot: 5}, "slot 5 is already free"},
		{ReleaseOptions{Slot: 8}, "the LUN has the slots 0 to 7"},
	} {
		if _, err := release(t.Context(), lockable{MemDevice: l.Client()}, "/dev/lun", c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

// A slot is watched for as long as its owner states that it may run on, but never for less than an agent with default
// settings that states nothing could run on.
func TestWatchedForTheHorizonOfTheOwner(t *testing.T) {
	s := &diskquorum.Slot{HeartbeatInterval: time.Second, Statement: netgossip.Statement{Guard: netgossip.Guard{Timeout: 30 * time.Second}}}
	for stated, want := range map[time.Duration]time.Duration{0: 53 * time.Second, 40 * time.Second: 53 * time.Second, 80 * time.Second: 80 * time.Second} {
		s.Statement.Guard.Horizon = stated
		if got := horizon(s); got != want {
			t.Errorf("stated %v: watched for %v, want %v", stated, got, want)
		}
	}
}
