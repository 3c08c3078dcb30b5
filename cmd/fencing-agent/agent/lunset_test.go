package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/boottime/boottimetest"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/parts"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/recorder"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
	"github.com/fencing-agent/fencing-agent/diskquorum/keeper"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// plainLUN is a device in memory without locks.
type plainLUN struct{ *diskquorumtest.MemDevice }

func (plainLUN) LockSlot(int) error { return nil }
func (plainLUN) Warning() string    { return "" }

func listing(t *testing.T, names ...string) *roster.Roster {
	t.Helper()
	var members []roster.Member
	for i, n := range names {
		members = append(members, roster.Member{Name: n, Addresses: map[string]string{"mgmt": fmt.Sprintf("10.0.0.%d", i+1)}})
	}
	r, err := roster.New(0, members, names[0])
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func superblock() *diskquorum.Superblock {
	return &diskquorum.Superblock{Version: diskquorum.FormatVersion, ID: [16]byte{1}, Cluster: "main", NodeGroup: "worker", Slots: 4, Created: 1}
}

// setRig is an agent that is going to open a LUN of three devices, in a bubble.
type setRig struct {
	t    *testing.T
	a    *Agent
	stop func()

	mu   sync.Mutex                     // guards what the keepers' goroutines use
	luns map[string]*diskquorumtest.LUN // by path; without an entry the device is away
}

// take removes the device of a path, and returns it.
func (r *setRig) take(path string) *diskquorumtest.LUN {
	r.mu.Lock()
	defer r.mu.Unlock()
	lun := r.luns[path]
	delete(r.luns, path)
	return lun
}

// put adds the device of a path.
func (r *setRig) put(path string, lun *diskquorumtest.LUN) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.luns[path] = lun
}

func (r *setRig) open(path string) (keeper.LUN, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lun := r.luns[path]; lun != nil {
		return plainLUN{lun.Client()}, nil
	}
	return nil, fmt.Errorf("open %s: %w", path, unix.ENOENT)
}

func newSetRig(t *testing.T, edit func(sbs []*diskquorum.Superblock)) *setRig {
	t.Helper()
	paths := []string{"/dev/a", "/dev/b", "/dev/c"}
	var sbs []*diskquorum.Superblock
	for d := range paths {
		sb := superblock()
		sb.ID[1], sb.SetID, sb.Devices, sb.Device = byte(d), [16]byte{9}, 3, d
		sbs = append(sbs, sb)
	}
	if edit != nil {
		edit(sbs)
	}
	r := &setRig{t: t, luns: map[string]*diskquorumtest.LUN{}}
	for d, path := range paths {
		lun, err := diskquorumtest.NewFormattedLUN(sbs[d], 1)
		if err != nil {
			t.Fatal(err)
		}
		r.put(path, lun)
	}
	cfg := config.Default()
	cfg.Cluster, cfg.NodeGroup, cfg.LUN.Devices = "main", "worker", paths
	members := listing(t, "n1", "n2")
	a := &Agent{
		cfg: cfg, roster: members, log: slog.New(slog.NewTextHandler(io.Discard, nil)), opts: Options{OpenLUN: r.open, Registry: prometheus.NewRegistry()},
		clock: boottimetest.Clock(boottime.Instant(time.Second)), box: newMailbox(1, numbered(2)),
		core: watchdog.NewCore(watchdog.Config{Roster: members, Networks: 1, Policy: netgossip.Any(), MaxAge: 4 * time.Second, LUN: true}),
		self: identity{boot: 1, process: 1},
	}
	r.a = a
	return r
}

// start opens the devices; end must be called.
func (r *setRig) start() error {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	running := 0
	err := r.a.startLUN(func(f func(context.Context)) {
		running++
		go func() {
			f(ctx)
			done <- struct{}{}
		}()
	})
	r.stop = func() {
		cancel()
		for range running {
			<-done
		}
	}
	return err
}

// handle lets the loop's part record what the keepers reported.
func (r *setRig) handle() {
	synctest.Wait()
	b := newBatch(1, 2)
	r.a.box.take(&b)
	if err := r.a.handle(&b); err != nil {
		r.t.Fatal(err)
	}
}

// Two of three devices are enough to arbitrate. The third joins when it appears.
func TestTwoOfThreeDevicesAreEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSetRig(t, nil)
		missing := r.take("/dev/b")
		if err := r.start(); err != nil {
			t.Fatal(err)
		}
		defer r.stop()
		r.handle()
		arb := r.a.core.Arbiter()
		if arb == nil || arb.DeviceTrouble(1, r.a.clock()) != "not opened yet" {
			t.Fatal("no arbiter with two of three devices, or one that has the third")
		}
		synctest.Wait()
		r.put("/dev/b", missing)
		time.Sleep(lunRetry + time.Second)
		r.handle()
		if got := arb.DeviceTrouble(1, r.a.clock()); got == "not opened yet" || r.a.lun.superblocks[1] == nil {
			t.Errorf("the third device did not join: %s", got)
		}
	})
}

func TestOneOfThreeDevicesIsNotEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSetRig(t, nil)
		r.take("/dev/b")
		r.take("/dev/c")
		if err := r.start(); err != nil {
			t.Fatal(err)
		}
		defer r.stop()
		if r.handle(); r.a.core.Arbiter() != nil {
			t.Error("an arbiter with one of three devices")
		}
	})
}

func TestDevicesOfTwoSetsAreRefused(t *testing.T) {
	single := func(sb *diskquorum.Superblock) { sb.Devices, sb.Device, sb.SetID = 0, 0, [16]byte{} }
	for name, edit := range map[string]func([]*diskquorum.Superblock){
		"three sets":     func(s []*diskquorum.Superblock) { s[1].SetID[0]++; s[2].SetID[1]++ },
		"a copied one":   func(s []*diskquorum.Superblock) { *s[2] = *s[0] },
		"two of no set":  func(s []*diskquorum.Superblock) { single(s[1]); single(s[2]) },
		"another group*": func(s []*diskquorum.Superblock) { s[0].NodeGroup = "other" },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newSetRig(t, edit)
			err := r.start()
			if err == nil || !strings.Contains(err.Error(), "/dev/a") {
				t.Errorf("%s: %v", name, err)
			}
			r.stop()
		})
	}
}

// Guard: two devices belong together, and the third does not, for example because it was formatted separately. The
// agent starts with the two, as it would go on with them. The third device is named, and nothing is written to it.
func TestStartsWithoutTheOddOneOfThree(t *testing.T) {
	for name, c := range map[string]struct {
		odd  int
		edit func(*diskquorum.Superblock)
	}{
		"formatted by itself, first": {0, func(sb *diskquorum.Superblock) { sb.Devices, sb.Device, sb.SetID = 0, 0, [16]byte{} }},
		"formatted by itself":        {1, func(sb *diskquorum.Superblock) { sb.Devices, sb.Device, sb.SetID = 0, 0, [16]byte{} }},
		"of another set, first":      {0, func(sb *diskquorum.Superblock) { sb.SetID[0]++ }},
		"of another set":             {2, func(sb *diskquorum.Superblock) { sb.SetID[0]++ }},
		"of other slots":             {0, func(sb *diskquorum.Superblock) { sb.Slots-- }},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newSetRig(t, func(s []*diskquorum.Superblock) { c.edit(s[c.odd]) })
			odd := r.luns[r.a.cfg.LUN.Devices[c.odd]]
			before := odd.Bytes()
			if err := r.start(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			r.handle()
			arb := r.a.core.Arbiter()
			if arb == nil {
				t.Fatalf("%s: no arbiter with two of three devices", name)
			}
			for range 100 {
				time.Sleep(100 * time.Millisecond)
				r.a.submitLUN(r.a.clock(), r.a.core.Step(r.a.clock()).Ops)
				r.handle()
			}
			for d := range 3 {
				trouble := r.a.deviceTrouble(d, arb, r.a.clock())
				if d == c.odd != strings.Contains(trouble, "left out: device") || (d == c.odd) != (r.a.lun.superblocks[d] == nil) {
					t.Errorf("%s: device %d: %q", name, d, trouble)
				}
			}
			if arb.Status(r.a.clock()).LastRead < 0 || !bytes.Equal(odd.Bytes(), before) {
				t.Errorf("%s: last read %v, written %v", name, arb.Status(r.a.clock()).LastRead, !bytes.Equal(odd.Bytes(), before))
			}
			r.stop()
		})
	}
}

// A device that appears late and belongs to another set is left out; the others go on.
func TestLateDeviceOfAnotherSetIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSetRig(t, func(s []*diskquorum.Superblock) { s[1].SetID[0]++ })
		late := r.take("/dev/b")
		if err := r.start(); err != nil {
			t.Fatal(err)
		}
		defer r.stop()
		r.handle()
		r.put("/dev/b", late)
		time.Sleep(lunRetry + time.Second)
		r.handle()
		if got := r.a.core.Arbiter().DeviceTrouble(1, r.a.clock()); got != "not opened yet" {
			t.Errorf("device b: %q", got)
		}
	})
}

// A device whose content is lost does not keep an agent from starting while the other two are intact. Whatever the
// arbiter does, it is never written to. It joins when it has been restored.
func TestWipedDeviceIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newSetRig(t, nil)
		r.a.log = slog.New(slog.NewTextHandler(&log, nil))
		intact := r.take("/dev/b")
		wiped := diskquorumtest.NewLUN(diskquorum.DeviceSize(2), 1)
		r.put("/dev/b", wiped)
		if err := r.start(); err != nil {
			t.Fatal(err)
		}
		r.handle()
		arb := r.a.core.Arbiter()
		if arb == nil {
			t.Fatal("no arbiter with two of three devices")
		}
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			r.a.submitLUN(r.a.clock(), r.a.core.Step(r.a.clock()).Ops)
			r.handle()
		}
		if trouble := arb.DeviceTrouble(1, r.a.clock()); trouble != "not opened yet" || arb.Status(r.a.clock()).LastRead < 0 {
			t.Errorf("device b: %q, last read %v", trouble, arb.Status(r.a.clock()).LastRead)
		}
		r.put("/dev/b", intact)
		time.Sleep(lunRetry + time.Second)
		r.handle()
		if r.a.lun.superblocks[1] == nil {
			t.Error("the restored device did not join")
		}
		r.stop()
		if n := strings.Count(log.String(), "level=ERROR msg=\"LUN device is not usable"); n != 1 || !strings.Contains(log.String(), "device=/dev/b") {
			t.Errorf("said %d times:\n%s", n, log.String())
		}
		for i, b := range wiped.Bytes() {
			if b != 0 {
				t.Fatalf("byte %d of the wiped device was written", i)
			}
		}
	})
}

// If one device is wiped and another is missing, nothing is arbitrated. The agent starts, and the log says how to
// restore the device.
func TestStartsWithOneSoundDeviceOfThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newSetRig(t, nil)
		r.a.log = slog.New(slog.NewTextHandler(&log, nil))
		r.put("/dev/a", diskquorumtest.NewLUN(diskquorum.DeviceSize(2), 1))
		away := r.take("/dev/c")
		if err := r.start(); err != nil {
			t.Fatal(err)
		}
		if r.handle(); r.a.core.Arbiter() != nil {
			t.Error("an arbiter with one device of three")
		}
		r.put("/dev/c", away)
		time.Sleep(lunRetry + time.Second)
		if r.handle(); r.a.core.Arbiter() == nil {
			t.Error("no arbiter with two devices of three")
		}
		r.stop()
		const advice = "it now holds zeros (superblock copy 0: block was never written); format all devices of the set together, once, with fencectl lun init"
		if !strings.Contains(log.String(), advice) {
			t.Errorf("the log has no advice:\n%s", log.String())
		}
	})
}

// If a copy of the superblock is wiped while agents run, the log names it until it is restored, although the other copy
// is enough.
func TestAWipedCopyOfTheSuperblockIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSetRig(t, nil)
		r.a.published.parts = parts.New(r.a.log, prometheus.NewRegistry())
		if err := r.start(); err != nil {
			t.Fatal(err)
		}
		missing := func() (out []string) {
			for range 100 {
				time.Sleep(100 * time.Millisecond)
				r.handle()
				r.a.disk(r.a.clock(), r.a.core.Step(r.a.clock()))
			}
			r.a.noteWorn()
			for _, m := range r.a.published.parts.Missing() {
				out = append(out, m.Part+": "+m.Problem)
			}
			return out
		}
		if got := missing(); len(got) > 0 {
			t.Errorf("missing %q", got)
		}
		sound := r.luns["/dev/b"].Bytes()
		r.luns["/dev/b"].Modify(func(b []byte) { clear(b[:diskquorum.BlockSize]) })
		if got := missing(); len(got) != 1 || !strings.HasPrefix(got[0], "second superblock of /dev/b: superblock copy 0: block was never written; the agents use the other copy") {
			t.Errorf("missing %q", got)
		}
		if r.a.core.Arbiter().Foreign(1) != nil {
			t.Error("a device with one copy is called foreign")
		}
		r.luns["/dev/b"].Modify(func(b []byte) { copy(b[:diskquorum.BlockSize], sound) })
		if got := missing(); len(got) > 0 {
			t.Errorf("mended, and missing %q", got)
		}
		r.stop()
	})
}

// The history has an entry when a device is lost or foreign, and one when it is in order again.
func TestALostLUNIsInTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSetRig(t, nil)
		r.a.published.history.recorder = recorder.New(recorder.Config{Clock: r.a.clock, Log: r.a.log})
		r.take("/dev/c")
		if err := r.start(); err != nil {
			t.Fatal(err)
		}
		r.handle()
		for _, trouble := range []string{"", "the LUN is no longer ours: it now holds zeros", "the LUN is no longer ours: it now holds zeros", "", ""} {
			r.a.noteTrouble(r.a.clock(), 0, trouble)
			time.Sleep(lunCalm)
		}
		r.stop()
		var got []string
		for _, rec := range r.a.published.history.recorder.Recent() {
			got = append(got, rec.Line())
		}
		if want := []string{"LUN lost: /dev/a: the LUN is no longer ours: it now holds zeros", "LUN in order again: /dev/a"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
