package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencectl/doctor"
	"github.com/fencing-agent/fencing-agent/cmd/fencectl/trial"
	"github.com/fencing-agent/fencing-agent/history"
	"github.com/fencing-agent/fencing-agent/watchdog/calibration"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// machineWith returns a machine with one idle watchdog, except for the changes.
func machineWith(t *testing.T, change map[string]string) *doctor.Machine {
	t.Helper()
	files := map[string]string{
		"sys/class/watchdog/watchdog0/identity": "Software Watchdog\n", "sys/class/watchdog/watchdog0/state": "inactive\n",
		"sys/class/watchdog/watchdog0/timeout": "60\n", "proc/1/comm": "systemd\n",
	}
	links := map[string]string{}
	for name, text := range change {
		if to, link := strings.CutPrefix(text, "->"); link {
			links[name] = to
			continue
		}
		files[name] = text
	}
	m := &doctor.Machine{Root: plant(t, files)}
	for name, to := range links {
		name = filepath.Join(m.Root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// Guard: a watchdog that a process holds, or that may be counting down, is not opened.
func TestWhichWatchdogMayBeTried(t *testing.T) {
	second := map[string]string{"sys/class/watchdog/watchdog1/identity": "iTCO_wdt", "sys/class/watchdog/watchdog1/state": "inactive"}
	for name, c := range map[string]struct {
		change  map[string]string
		device  string
		refuses string // empty: it is not refused
	}{
		"the only one":            {nil, "", ""},
		"by name":                 {nil, "/dev/watchdog0", ""},
		"by the old name":         {nil, "/dev/watchdog", ""},
		"by identity":             {second, "identity:iTCO_wdt", ""},
		"no such identity":        {nil, "identity:iTCO_wdt", "0 watchdogs call themselves"},
		"one that is not there":   {nil, "/dev/watchdog7", "not in /sys/class/watchdog"},
		"two":                     {second, "", "name one with --device"},
		"one of two":              {second, "/dev/watchdog1", ""},
		"held by an agent":        {map[string]string{"proc/7/comm": "fencing-agent", "proc/7/fd/3": "->/dev/watchdog0"}, "", "held by fencing-agent (7)"},
		"counting down":           {map[string]string{"sys/class/watchdog/watchdog0/state": "active"}, "", "is active"},
		"no state":                {map[string]string{"sys/class/watchdog/watchdog0/state": ""}, "", "in an unknown state"},
		"an agent in maintenance": {map[string]string{"proc/7/comm": "fencing-agent"}, "", "an agent runs"},
	} {
		w, err := toTest(machineWith(t, c.change), c.device)
		switch {
		case c.refuses == "" && (err != nil || c.device != "/dev/watchdog" && !strings.HasSuffix(c.device, w.Name) && c.device != "identity:"+w.Identity && c.device != ""):
			t.Errorf("%s: %+v, %v", name, w, err)
		case c.refuses != "" && (err == nil || !strings.Contains(err.Error(), c.refuses)):
			t.Errorf("%s: %+v, %v", name, w, err)
		}
	}
	outside := &doctor.Machine{Root: plant(t, map[string]string{"dev/watchdog": "", "sys/class/misc/watchdog/dev": "10:130", "sys/module/ipmi_watchdog/refcnt": "0"})}
	for _, device := range []string{"", "/dev/watchdog"} {
		if _, err := toTest(outside, device); err == nil || !strings.Contains(err.Error(), "/dev/watchdog (IPMI) cannot be tried: its driver is not in /sys/class/watchdog") {
			t.Errorf("a driver that sysfs does not show, named %q: %v", device, err)
		}
	}
	if _, err := toTest(&doctor.Machine{Root: t.TempDir()}, ""); err == nil {
		t.Error("a machine without a watchdog")
	}
}

// Guard: without the flag no device is opened.
func TestWatchdogTestAsks(t *testing.T) {
	m := machineWith(t, nil)
	a := liveAgent(t, "healthy")
	if code, _, stderr := ask(t, a, 0, "watchdog", "test", "--root", m.Root); code != exitUsage || !strings.Contains(stderr, "Software Watchdog) would reset this machine") {
		t.Errorf("exit %d, %q", code, stderr)
	}
	for _, bad := range []string{"0s", "-5s", "4s", "5500ms"} {
		if code, _, stderr := ask(t, a, 0, "watchdog", "test", "--root", m.Root, "--yes-reset-this-node", "--timeout", bad, "--file", m.Root); code != exitUsage {
			t.Errorf("--timeout %s: exit %d, %q", bad, code, stderr)
		}
	}
}

// Guard: the error of a user who is not root says what to do.
func TestWatchdogTestWantsRoot(t *testing.T) {
	if err := forRoot(fmt.Errorf("open: %w", syscall.EACCES)); !strings.Contains(err.Error(), "run this as root") {
		t.Error(err)
	}
	if err := forRoot(syscall.EBUSY); err != error(syscall.EBUSY) {
		t.Error(err)
	}
}

// Guard: no watchdog is armed if the result of the test could not be kept, and the error says what to do.
func TestTrialsThatCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "members-history")
	if err := os.WriteFile(calibrationFile(path), []byte("gibberish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := &environment{name: "fencectl", stdout: &strings.Builder{}, stderr: &strings.Builder{}, getenv: func(string) string { return "" }}
	if err := (testRecord{env: env, file: path, path: "/dev/watchdog0"}).last(); err == nil || !strings.Contains(err.Error(), "members-watchdog: line 1") || !strings.Contains(err.Error(), "move that file away") {
		t.Errorf("%v", err)
	}
}

func TestTheTestIsOnRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "members-history")
	env := &environment{name: "fencectl", stdout: &strings.Builder{}, stderr: &strings.Builder{}, getenv: func(string) string { return "" }}
	r := testRecord{env: env, file: path, path: "/dev/watchdog0"}
	if err := r.last(); err != nil || !strings.Contains(env.stderr.(*strings.Builder).String(), "nobody will know") {
		t.Errorf("without a history: %v, %q", err, env.stderr)
	}
	file := append(history.Header(8), make([]byte, 8*history.SlotSize)...)
	old := history.Record{Seq: 41, Boot: presentBoot(), Kind: history.Stopped, Wall: time.Now()}
	copy(file[history.Offset(3):], history.Encode(&old))
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.last(); err != nil {
		t.Fatal(err)
	}
	end := func() history.Ending {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := history.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		e, _ := history.Before(f.Records, presentBoot()+2)
		return e
	}
	if e := end(); e.End != history.EndTested || !strings.Contains(e.Text, "/dev/watchdog0") {
		t.Errorf("%+v", e)
	}
	if r.failed("it did not"); end().End != history.EndSudden {
		t.Errorf("%+v", end())
	}
}

// Guard: with --if-untried a watchdog is tried once. A machine whose record would be lost by the reset is not reset.
func TestWatchdogsAreTriedOnce(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "untried") // TMPDIR may be in memory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := lasting(dir); err != nil {
		t.Skip(err)
	}
	past := func(ran time.Duration, end calibration.End) *calibration.Trial {
		return &calibration.Trial{Identity: "dog", Firmware: wdt.Firmware("/sys"), Timeout: time.Minute, Boot: presentBoot() + 1, Ran: ran, Next: ran, End: end}
	}
	other := past(time.Minute, "")
	other.Firmware += " of yesterday"
	for name, c := range map[string]struct {
		trial *calibration.Trial
		done  bool
		says  string // in the output or the error
	}{
		"never":                      {nil, false, "it was marked, and the next boot tries"},
		"with another firmware":      {other, false, ""},
		"called off":                 {past(time.Second, calibration.CalledOff), false, ""},
		"it has reset the machine":   {past(time.Minute, ""), true, "has reset this node"},
		"it failed":                  {past(2*time.Minute, calibration.Failed), true, "did not reset this node"},
		"something was there before": {past(time.Second, ""), true, "before the timeout was up"},
		"an agent came meanwhile":    {past(time.Second, calibration.Outlived), true, "the test was killed"},
		"reset as it was armed":      {past(0, ""), true, "before the timeout was up"},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"), "members-history")
		if c.trial != nil {
			if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(calibrationFile(path), calibration.Encode([]calibration.Trial{*c.trial}), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out := new(strings.Builder)
		r := testRecord{env: &environment{name: "fencectl", stdout: out}, file: path, path: "/dev/watchdog0"}
		done, err := r.tried("dog")
		if said := fmt.Sprint(out, err); done != c.done || !strings.Contains(said, c.says) || c.says == "" && err != nil {
			t.Errorf("%s: %v, %s", name, done, said)
		}
	}
	r := testRecord{env: &environment{}, file: filepath.Join(dir, "members-history"), path: "/dev/watchdog0", identity: "dog"}
	if _, err := r.tried(""); err == nil {
		t.Error("a driver without a name is tried at every boot")
	}
	if _, err := r.keep(trial.Info{Identity: "cat", Timeout: time.Minute}); err == nil || !strings.Contains(err.Error(), `"cat"`) {
		t.Errorf("a driver of two names is tried at every boot: %v", err)
	}
	if done, err := (testRecord{env: &environment{}, file: "/dev/shm/members-history"}).tried("dog"); done || err == nil {
		t.Errorf("a record in memory: %v, %v", done, err)
	}
	if err := lasting("/dev/shm"); err == nil || !strings.Contains(err.Error(), "tmpfs") {
		t.Errorf("in memory: %v", err)
	}
}
