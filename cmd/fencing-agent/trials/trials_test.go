package trials

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/watchdog/calibration"
)

// Guard: the result of a trial outlives the next trials. A file that cannot be read is not replaced.
func TestTrialsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lists", "members-watchdog")
	if got, err := Read(path); len(got) != 0 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range most + 2 {
		w, err := Begin(path, calibration.Trial{Identity: "dog", Timeout: 10 * time.Second, Boot: uint64(i + 1)})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Ran(9*time.Second, 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if err := w.Ran(10*time.Second, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if i == most {
			if err := w.Close(calibration.Failed); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := Read(path)
	if err != nil || len(got) != most {
		t.Fatalf("%d trials, %v", len(got), err)
	}
	last := got[most-1]
	if last.Boot != most+2 || last.Ran != 10*time.Second || last.Next != 10*time.Second+calibration.Every+40*time.Millisecond || last.End != "" || got[most-2].End != calibration.Failed {
		t.Errorf("%+v, before %+v", last, got[most-2])
	}
	if err := os.WriteFile(path, []byte("gibberish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Begin(path, calibration.Trial{Timeout: time.Second}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that cannot be read: %v", err)
	}
	if text, err := os.ReadFile(path); string(text) != "gibberish\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// Guard: if a trial's program was killed and the machine has outlived that program in the same boot, the trial proves
// nothing. A trial that is still running does.
func TestATrialThatTheMachineOutlived(t *testing.T) {
	path := filepath.Join(t.TempDir(), "members-watchdog")
	if err := Settle(path, 7); err != nil {
		t.Error(err)
	}
	w, err := Begin(path, calibration.Trial{Identity: "dog", Timeout: 10 * time.Second, Boot: 7})
	if err != nil {
		t.Fatal(err)
	}
	result := func() calibration.Result {
		seen, err := Read(path)
		if err != nil || len(seen) == 0 {
			t.Fatalf("%+v, %v", seen, err)
		}
		return seen[0].Result(8)
	}
	mark := func() {
		if err := w.Ran(12*time.Second, 0); err != nil {
			t.Fatal(err)
		}
	}
	mark()
	if err := Settle(path, 8); err != nil || result() != calibration.Fired {
		t.Errorf("in the next boot: %v, %v", result(), err)
	}
	if err := Settle(path, 7); err != nil || result() != calibration.Nothing {
		t.Errorf("in the same boot: %v, %v", result(), err)
	}
	mark()
	if result() != calibration.Fired {
		t.Errorf("it goes on: %v", result())
	}
	if _, err := Begin(path, calibration.Trial{Identity: "dog", Timeout: 10 * time.Second, Boot: 7}); err != nil || result() != calibration.Nothing {
		t.Errorf("another one in the same boot: %v, %v", result(), err)
	}
}

// Guard: where the operator demands that a watchdog has been seen to fire, only a trial with the present firmware
// counts.
func TestStrict(t *testing.T) {
	path := filepath.Join(t.TempDir(), "members-watchdog")
	look := func() *Seen {
		s, err := Look("", path)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := look()
	if s.Of("dog").Unproven {
		t.Error("nobody has asked for that")
	}
	if s.Strict = true; !s.Of("dog").Unproven {
		t.Error("it was never tried")
	}
	fired := calibration.Trial{Identity: "dog", Firmware: s.Firmware + " before", Timeout: 10 * time.Second, Boot: 7, Ran: 10 * time.Second}
	for _, firmware := range []string{s.Firmware + " before", s.Firmware} {
		fired.Firmware = firmware
		if err := os.WriteFile(path, calibration.Encode([]calibration.Trial{fired}), 0o600); err != nil {
			t.Fatal(err)
		}
		s := look()
		s.Strict = true
		if got := s.Of("dog").Unproven; got != (firmware != s.Firmware) {
			t.Errorf("tried with firmware %q: unproven %v", firmware, got)
		}
	}
}

// Guard: a note that cannot be written leaves a readable file, without a trial that the next reset would complete.
func TestATrialThatCannotBeNoted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "members-watchdog")
	w, err := Begin(path, calibration.Trial{Identity: "dog", Timeout: 10 * time.Second, Boot: 7})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Ran(10*time.Second, 0); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0) // its writes fail, and truncating works
	if err != nil {
		t.Fatal(err)
	}
	w.f.Close()
	w.f, w.good = file, w.good-3 // half of the last note was written
	if _, err := file.Seek(0, 2); err != nil {
		t.Fatal(err)
	}
	w.undo()
	if seen, err := Read(path); err != nil || len(seen) != 1 || seen[0].Ran != 0 {
		t.Errorf("after half a note: %+v, %v", seen, err)
	}
	w.forget()
	if seen, err := Read(path); err != nil || len(seen) != 0 {
		t.Errorf("after an end that cannot be noted: %+v, %v", seen, err)
	}
}

// Guard: if the file cannot be read, a watchdog counts as late as the latest that is known.
func TestAFileThatCannotBeRead(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("proc/sys/kernel/random/boot_id", "6b1b7c1e-9a3c-4d8e-8a57-0b1c2d3e4f50\n")
	if seen, err := Look(root, "members-watchdog"); err != nil || seen.Of("dog").Factor != 0 {
		t.Errorf("no file: %+v, %v", seen, err)
	}
	put("members-watchdog", `{"version":1}
{"trial":{"identity":"dog","timeout":10000000000,"boot":7,"ran":30000000000}}
{]
`)
	seen, err := Look(root, "members-watchdog")
	if m := seen.Of("dog"); err == nil || m.Factor < 3 {
		t.Errorf("the end cannot be read: %+v, %v", m, err)
	}
	if m := seen.Of("cat"); m.Factor != 2 {
		t.Errorf("of another driver: %+v", m)
	}
}
