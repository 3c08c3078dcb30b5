package rawdev

import (
	"errors"
	"testing"

	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

func TestLockSlot(t *testing.T) {
	path := diskquorumtest.File(t, 64*block)
	a, b := open(t, path, Options{}), open(t, path, Options{})
	if err := errors.Join(a.LockSlot(3), a.LockSlot(3), b.LockSlot(2), b.LockSlot(4)); err != nil {
		t.Fatalf("slots that nobody else has: %v", err)
	}
	if err := b.LockSlot(3); !errors.Is(err, ErrSlotLocked) {
		t.Errorf("a slot of another: %v", err)
	}
	if err := b.LockAll(); !errors.Is(err, ErrInUse) {
		t.Errorf("lock all while an agent runs: %v", err)
	}
	if err := a.LockSlot(-1); err == nil {
		t.Error("slot -1 was locked")
	}
	if err := a.LockSlot(255); err == nil {
		t.Error("slot 255 was locked")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.LockSlot(3); err != nil {
		t.Errorf("after its owner closed: %v", err)
	}
	if err := open(t, path, Options{ReadOnly: true}).LockSlot(5); err == nil {
		t.Error("a read-only device locked a slot")
	}
}

func TestLockAll(t *testing.T) {
	path := diskquorumtest.File(t, 8*block)
	a, b := open(t, path, Options{}), open(t, path, Options{})
	if err := a.LockAll(); err != nil {
		t.Fatal(err)
	}
	if err := b.LockAll(); !errors.Is(err, ErrInUse) {
		t.Errorf("second lock: %v", err)
	}
	if err := b.LockSlot(200); !errors.Is(err, ErrSlotLocked) { // beyond the end of the file
		t.Errorf("slot of a locked device: %v", err)
	}
}
