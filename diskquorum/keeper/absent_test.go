package keeper

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

// absences lists devices that have neither our superblock nor another group's.
var absences = []struct {
	name  string
	away  bool
	size  int64 // 0: unchanged
	edit  func(image []byte)
	wants []string
}{
	{"zeroed", false, 0, func(b []byte) { clear(b) }, []string{"it now holds a file system", "lun init"}},
	{"formatted by somebody else", false, 0, func(b []byte) { copy(b, bytes.Repeat([]byte("garbage"), 2000)) }, []string{"it now holds a file system"}},
	{"one copy overwritten", false, 0, func(b []byte) { copy(b, "partition table") }, []string{"it now holds a file system", "superblock copy A was overwritten by something else"}},
	{"cut within the slots", false, 5 * diskquorum.BlockSize, nil, []string{"which need 61440 bytes, but has only 20480; was it truncated?"}},
	{"cut within the superblock", false, diskquorum.BlockSize, nil, []string{"it has only 4096 bytes; was it truncated?"}},
	{"of 0 bytes", true, -1, nil, []string{"it has no bytes yet"}},
}

// spoil replaces the LUN with such a device, and returns both.
func (r *lunRig) spoil(size int64, edit func([]byte)) (spoiled, sound *diskquorumtest.LUN) {
	sound = r.lun
	image := sound.Bytes()
	switch {
	case size < 0:
		size = 0
	case size == 0:
		size = int64(len(image))
	}
	spoiled = diskquorumtest.NewLUN(size, 1)
	spoiled.Modify(func(b []byte) {
		if copy(b, image); edit != nil {
			edit(b)
		}
	})
	r.set(func(r *lunRig) { r.lun = spoiled })
	return spoiled, sound
}

// advises checks the advice for a device with other contents. A device that is truncated or missing needs other advice.
func advises(t *testing.T, trouble, want string) {
	t.Helper()
	if strings.Contains(trouble, "it now holds") && !strings.Contains(trouble, want) {
		t.Errorf("trouble %q, want the advice %q", trouble, want)
	}
}

func aFileSystem(diskquorum.Device) (string, error) { return "a file system", nil }

// Guard: adr/0076. The agent starts without such a device, logs its contents once as an error, writes nothing, and uses
// the LUN when its superblock is read.
func TestStartsWithoutASuperblockOfOurs(t *testing.T) {
	for _, c := range absences {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var spoiled, sound *diskquorumtest.LUN
				r := startKeeper(t, func(r *lunRig) {
					r.keeper.Stands = aFileSystem
					spoiled, sound = r.spoil(c.size, c.edit)
				})
				defer r.end()
				before := spoiled.Bytes()
				if err := <-r.keeper.first; err == nil || Away(err) != c.away || Absent(err) == c.away {
					t.Fatalf("first result %v: away %v, absent %v", err, Away(err), Absent(err))
				}
				time.Sleep(3*retry + time.Millisecond)
				for _, want := range c.wants {
					if got := r.keeper.Trouble(); !strings.Contains(got, want) {
						t.Errorf("trouble %q, want %q", got, want)
					}
				}
				advises(t, r.keeper.Trouble(), "format it once with: fencectl lun init /dev/lun --cluster main --node-group worker --slots N, N at least 2")
				if r.errors() != 1 || len(r.taken().opened) != 0 || !bytes.Equal(before, spoiled.Bytes()) {
					t.Errorf("%d errors logged, or opened, or written:\n%s", r.errors(), r.log.String())
				}
				r.set(func(r *lunRig) { r.lun = sound })
				time.Sleep(retry)
				if b := r.taken(); len(b.opened) != 1 || r.keeper.Trouble() != "" {
					t.Errorf("reported %+v, trouble %q", b.opened, r.keeper.Trouble())
				}
			})
		})
	}
}

// Guard: B10. If the LUN becomes such a device while the agent runs, it is closed when a read has shown that, the
// status describes the new contents, and the LUN is opened again when it is ours.
func TestLUNIsNoLongerOurs(t *testing.T) {
	for _, c := range absences {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startKeeper(t, func(r *lunRig) { r.keeper.Stands = aFileSystem })
				defer r.end()
				if err := <-r.keeper.first; err != nil {
					t.Fatal(err)
				}
				_, sound := r.spoil(c.size, c.edit)
				r.keeper.LookAgain()
				if o := r.last(2); !o.closed {
					t.Error("not closed")
				}
				for _, want := range append(c.wants, map[bool]string{false: "the LUN is no longer ours", true: "no bytes"}[c.away]) {
					if got := r.keeper.Trouble(); !strings.Contains(got, want) {
						t.Errorf("trouble %q, want %q", got, want)
					}
				}
				advises(t, r.keeper.Trouble(), "find out who uses it now; if nobody is allowed to, format it again with: fencectl lun init --force /dev/lun --cluster main --node-group worker")
				if strings.Count(r.keeper.Trouble(), "no longer ours") > 1 {
					t.Errorf("said twice: %q", r.keeper.Trouble())
				}
				r.keeper.Lock(1)
				r.keeper.Submit(1, write(7))
				if b := r.taken(); len(b.completed) != 1 || b.completed[0].Err == nil {
					t.Errorf("written: %+v", b.completed)
				}
				r.set(func(r *lunRig) { r.lun = sound })
				time.Sleep(retry)
				if r.taken(); r.last(3).closed || r.keeper.Trouble() != "" {
					t.Errorf("not taken back: trouble %q", r.keeper.Trouble())
				}
			})
		})
	}
}

// If the device cannot be read beyond its superblock, there is no advice to format it.
func TestWhatCannotBeReadIsNotToBeFormatted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startKeeper(t, func(r *lunRig) {
			r.keeper.Stands = func(diskquorum.Device) (string, error) { return "", unix.EIO }
			r.spoil(0, func(b []byte) { clear(b) })
		})
		defer r.end()
		if err := <-r.keeper.first; !Absent(err) || strings.Contains(err.Error(), "format") || !strings.Contains(err.Error(), "see to the storage first") {
			t.Errorf("%v", err)
		}
	})
}
