package vms

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/observe"
	"github.com/fencing-agent/fencing-agent/integration/vms/control"
	"github.com/fencing-agent/fencing-agent/integration/vms/image"
	"github.com/fencing-agent/fencing-agent/integration/vms/machine"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/calibration"
)

// boardKernel is Debian's package that depends on a kernel with drivers for boards.
const boardKernel = "linux-image-amd64"

// tolerance is the time by which a reset may come early, or the harness may learn of it or of the last feed late.
const tolerance = time.Second

// bench is one part under trial. Its machine ends with each reset, and the next one gets its disk.
type bench struct {
	*story
	p     part
	found *fencingv1.Status // the agent's status before the trial
	kept  calibration.Trial // what the trial left on disk
	row   shown
}

// shown is the row of a part in the table.
type shown struct {
	part
	set, read     time.Duration
	unfed         time.Duration // from the last feed to the reset
	says          string        // the content of the file
	before, after time.Duration // the published horizon, before and after the trial
	// These times are counted from the last contact: the reset if a starved agent is killed late, FENCED, and FENCED
	// without the driver's delay.
	killed, dead, bare time.Duration
}

// TestWatchdogs lets the product find, arm, read, feed, disarm and try real drivers, and starve their machines.
func TestWatchdogs(t *testing.T) {
	need(t)
	if os.Getenv(kernelEnv) == "" {
		t.Skipf("needs a kernel with drivers for boards: %s=%s (make test-watchdog)", kernelEnv, boardKernel)
	}
	stalls := observe.NewStalls()
	defer stalls.Close()
	var rows []shown
	for _, p := range parts {
		if !p.short && *few {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			b := &bench{story: &story{t: t, name: p.name, began: time.Now(), stalls: stalls}, p: p, row: shown{part: p, set: p.timeout}}
			l, err := newLab(t, crew{nodes: nodesNamed(1), megabytes: nodeMegabytes, board: p.board, qemu: p.qemu, once: true, kernel: stays, boot: func(*lab) error { return nil }})
			if err != nil {
				t.Fatal(err)
			}
			defer l.close(t)
			b.lab = l
			b.must(b.install(t.Context()))
			b.whole()
			if !t.Failed() {
				rows = append(rows, b.row)
			}
		})
	}
	t.Logf("watchdogs\n\n%s%s", partsHead, partRows(rows))
	if err := writeParts(rows); err != nil {
		t.Error(err)
	}
}

// lone is the name of the only node.
const lone = "n1"

// whole is the story of a part.
func (b *bench) whole() {
	b.boot()
	b.finds()
	b.feeds()
	b.disarms()
	if b.p.outside {
		b.refusesTrial()
		b.starves()
	} else {
		b.tries()
	}
	b.boot()
	b.knows()
	if b.p.fires > 0 {
		b.starvesAndIsKilled()
	}
	if b.p.fires > 0 && *long {
		b.panics()
		b.isCondemned()
	}
	b.logf("%s: set %v, read back %v, fires after %v; the file says %s; horizon %v, then %v; starved and killed: reset after %v, FENCED after %v, without the delay %v",
		b.p.name, b.row.set, b.row.read, b.row.unfed, b.row.says, b.row.before, b.row.after, b.row.killed, b.row.dead, b.row.bare)
}

// spec returns watchdog.device.
func (b *bench) spec() string { return cmp.Or(b.p.device, "/dev/watchdog") }

// install creates the image and the disk.
func (b *bench) install(ctx context.Context) error {
	c := card(1, 1, networks[0])
	text, err := yaml.Marshal(map[string]any{
		"cluster": "lab", "nodeName": lone, "nodeGroup": "worker", "timing": "fast",
		"members": map[string]any{
			"source": "static", "cacheFile": control.DiskMount + "/lib/members.json",
			"static": []map[string]any{{"name": lone, "addresses": map[string]string{networks[0]: address(1, 1)}}},
		},
		"systemNetworks": []map[string]any{{"name": networks[0], "at": networks[0]}},
		"watchdog":       map[string]any{"device": b.spec(), "timeout": b.p.timeout.String()},
		"api":            map[string]any{"socket": "/run/fencing-agent.sock"},
		"http":           map[string]any{"address": "127.0.0.1:9110"},
	})
	if err != nil {
		return err
	}
	m := image.Machine{
		Boot: control.Boot{
			Name: lone, Disk: "/dev/vda", Interfaces: []control.Interface{c}, Files: map[string]string{agentYAML: string(text)},
			Service: []string{current + "/fencing-agent", "--config", agentYAML, "--log-format", "json"}, Later: true,
		},
		Modules: slices.Concat(common(), b.p.modules),
	}
	root := filepath.Join(b.dir, "disk")
	if err := agentDisk(root); err != nil {
		return err
	}
	if err := os.Link(filepath.Join(built.programs, "condemned"), filepath.Join(root, "bin/condemned")); err != nil {
		return err
	}
	if b.p.unlisted {
		if err := b.unlist(root); err != nil {
			return err
		}
	}
	_, err = image.Build(built.tree, b.dir, built.guest, []image.Machine{m})
	return errors.Join(err, image.Disk(ctx, b.disk(), root, diskMegabytes))
}

// unlisted makes the agent know nothing of the driver iTCO_wdt.
var unlisted = mutant{name: "iTCO_wdt is not in the table", file: "watchdog/port.go", from: `	"iTCO_wdt": {func`, to: `	"unlisted": {func`}

// unlist puts an agent on the disk that does not know the driver.
func (b *bench) unlist(root string) error {
	changes := []mutant{unlisted}
	if m, err := chosenMutant(); err != nil {
		return err
	} else if m != nil {
		changes = append(changes, *m)
	}
	flag, err := overlay(b.dir, changes...)
	if err != nil {
		return err
	}
	link := filepath.Join(root, filepath.Base(current))
	return errors.Join(
		build(filepath.Join(root, "unlisted", "fencing-agent"), "", "../../cmd/fencing-agent", flag),
		os.Remove(link), os.Symlink("unlisted", link))
}

func (b *bench) disk() string { return filepath.Join(b.dir, lone+".img") }

// boot starts a machine with the disk, and waits for it.
func (b *bench) boot() {
	b.t.Helper()
	if m := b.machines[lone]; m != nil {
		m.Close()
	}
	kernels, err := filepath.Glob(filepath.Join(built.tree, "boot", "vmlinuz-*"))
	b.must(err)
	img := &image.Image{Kernel: kernels[0], Initrd: filepath.Join(b.dir, "initrd")}
	b.must(b.start(b.t.Context(), img, lone, []string{b.disk()}, b.crew.megabytes, []control.Interface{card(1, 1, networks[0])}))
	b.begin(b.lab)
	b.eventually(time.Now().Add(upLimit), "the machine boots", func() string {
		if _, ok := b.first(lone, time.Time{}, func(e machine.Event) bool { return e.Kind == control.Log && e.Text == "up" }); !ok {
			return "it is not up"
		}
		return ""
	})
	b.logf("the machine is up")
}

const (
	agentYAML = "/etc/fencing-agent/agent.yaml"
	armLimit  = time.Minute
	fencectl  = control.DiskMount + "/bin/fencectl"
)

// listed returns what fencectl watchdog list prints about the part.
func (b *bench) listed() (w struct{ Name, Identity, State, Timeout string }) {
	b.t.Helper()
	var all []struct{ Name, Identity, State, Timeout string }
	text := b.run(lone, fencectl+" watchdog list -o json")
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		b.t.Fatalf("%v: %s", err, text)
	}
	for _, l := range all {
		if l.Identity == b.p.identity {
			return l
		}
	}
	b.t.Fatalf("fencectl watchdog list does not show %q: %s", b.p.identity, text)
	return w
}

// finding returns what fencectl doctor prints about the part.
func (b *bench) finding() (f struct{ Level, Subject, Found, Do string }) {
	b.t.Helper()
	var all []struct{ Level, Subject, Found, Do string }
	text := b.run(lone, fencectl+" doctor -o json 2>/dev/null; true")
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		b.t.Fatalf("%v: %s", err, text)
	}
	for _, f := range all {
		if strings.HasPrefix(f.Subject, "watchdog") && strings.HasPrefix(f.Found, b.p.identity) {
			b.logf("doctor: %s %s: %s; %s", f.Level, f.Subject, f.Found, f.Do)
			return f
		}
	}
	b.t.Fatalf("fencectl doctor does not mention %q: %s", b.p.identity, text)
	return f
}

// finds: the tools that examine a machine before an agent runs agree on its watchdog.
func (b *bench) finds() {
	w, f := b.listed(), b.finding()
	if w.Name != f.Subject {
		b.t.Errorf("watchdog list has %s, doctor %s", w.Name, f.Subject)
	}
	if want := map[bool]string{true: "", false: "inactive"}[b.p.outside]; w.State != want {
		b.t.Errorf("state %q, want %q", w.State, want)
	}
}

// arms starts the agent and waits until its watchdog counts down.
func (b *bench) arms() *fencingv1.Status {
	b.t.Helper()
	b.service(lone, "start")
	v := b.await(armLimit, "the agent has armed the watchdog", b.nodes, armed(lone))
	status := v.Status[lone]
	if got := status.GetWatchdog().GetIdentity(); got != b.p.identity {
		b.t.Errorf("armed %q, not %q", got, b.p.identity)
	}
	return status
}

// feeds: the agent reads the timeout back, and while it feeds the machine is not reset.
func (b *bench) feeds() {
	b.found = b.arms()
	b.row.read = b.found.GetWatchdog().GetTimeout().AsDuration()
	b.row.before = b.found.GetTimeBudget().GetHorizonMajority().AsDuration()
	b.until(time.Now().Add(max(b.p.fires, b.p.timeout) + 4*time.Second))
	if at, ended := b.ended(); ended {
		b.t.Fatalf("reset at %v while it was fed", at)
	}
	b.logf("fed for longer than it takes to fire, not reset: %+v", b.found.GetTimeBudget())
}

// disarms: an agent that ends as planned leaves no countdown behind.
func (b *bench) disarms() {
	b.service(lone, "stop")
	b.eventually(time.Now().Add(upLimit), "the agent ends", func() string {
		if _, ok := b.first(lone, time.Time{}, func(e machine.Event) bool {
			return e.Kind == control.Log && strings.HasPrefix(e.Text, "agent ended")
		}); !ok {
			return "it runs"
		}
		return ""
	})
	if b.p.outside {
		// Nothing else proves it.
		b.until(time.Now().Add(b.p.fires + 3*time.Second))
	} else if w := b.listed(); w.State != "inactive" {
		b.t.Errorf("after the agent has ended: %+v", w)
	}
	if _, ended := b.ended(); ended {
		b.t.Fatal("the machine was reset after the agent had ended as planned")
	}
	b.logf("disarmed")
}

// ended returns when the hypervisor saw the machine's reset, which its watchdog or the guest caused.
func (b *bench) ended() (at time.Time, ended bool) {
	return b.first(lone, time.Time{}, func(e machine.Event) bool {
		return e.Kind == machine.QMP && (e.Source == "WATCHDOG" || e.Source == "SHUTDOWN" || isReset(e))
	})
}

// resetBy waits for the reset, and returns the time from the last feed to it.
func (b *bench) resetBy(limit time.Duration) (at time.Time, fired time.Duration) {
	b.t.Helper()
	b.surely(time.Now().Add(limit+patience), "reset", func() string {
		if _, ok := b.ended(); !ok {
			return "the machine runs"
		}
		return ""
	})
	at, _ = b.ended()
	fed := b.story.feeds(lone, time.Time{}, at.Add(time.Hour))
	if len(fed) == 0 {
		b.t.Fatal("the kernel saw no feed")
	}
	return at, at.Sub(fed[len(fed)-1])
}

// onTime checks when the watchdog has fired.
func (b *bench) onTime(fired time.Duration) {
	b.t.Helper()
	if fired < b.p.fires-tolerance || fired > b.p.fires+tolerance {
		b.fatal("it has fired %v after the last feed, not %v", fired, b.p.fires)
	}
}

// try runs fencectl watchdog test.
func (b *bench) try() string {
	command := fmt.Sprintf("%s watchdog test --yes-reset-this-node --timeout %v --file %s/lib/members-history", fencectl, b.p.timeout, control.DiskMount)
	if b.p.path != "" {
		command += " --device " + b.p.path
	}
	return command + " 2>&1"
}

// tries: fencectl watchdog test resets the machine, or reports that the watchdog did not.
func (b *bench) tries() {
	done := make(chan string, 1)
	go func() {
		text, err := b.machines[lone].Run(b.t.Context(), b.try())
		done <- fmt.Sprintf("%s (%v)", text, err)
	}()
	if b.p.fires == 0 {
		text := <-done
		if want := fmt.Sprintf("did NOT reset this node within %v", 2*b.p.timeout+30*time.Second); !strings.Contains(text, want) {
			b.t.Errorf("the trial does not say %q: %s", want, text)
		}
		b.row.says = string(calibration.Failed)
		return
	}
	_, b.row.unfed = b.resetBy(b.p.fires)
	b.logf("%s: reset %v after the last feed", b.p.name, b.row.unfed)
	b.onTime(b.row.unfed)
	<-done
}

// refusesTrial: nobody can know what a watchdog outside of the core does before it is opened.
func (b *bench) refusesTrial() {
	text := b.run(lone, "cd /; "+b.try()+"; echo exit $?")
	if !strings.Contains(text, "exit 1") || !strings.Contains(text, "cannot be tried: its driver is not in /sys/class/watchdog") {
		b.t.Errorf("the trial says %q", text)
	}
	b.row.says = "nothing"
}

// hangs stops the agent. That is the last contact with the node and its last feed.
func (b *bench) hangs() time.Time {
	at := time.Now()
	b.run(lone, "kill -STOP $(pidof fencing-agent)")
	return at
}

// starves: the agent hangs, and the watchdog resets the machine.
func (b *bench) starves() {
	b.arms()
	b.hangs()
	_, b.row.unfed = b.resetBy(b.p.fires)
	b.logf("%s: reset %v after the last feed", b.p.name, b.row.unfed)
	b.onTime(b.row.unfed)
}

// knows: after the trial, the agent and doctor report what it has proven.
func (b *bench) knows() {
	f := b.finding()
	if b.p.fires == 0 {
		b.refused(f.Level)
		return
	}
	status := b.arms()
	budget := status.GetTimeBudget()
	b.row.after = budget.GetHorizonMajority().AsDuration()
	b.row.dead = b.row.after
	read := status.GetWatchdog().GetTimeout().AsDuration()
	// This is the same sum for a driver that fires when its timeout has passed.
	b.row.bare = b.row.after - 2*(budget.GetRelease().AsDuration()-read)
	if w := budget.GetWatchdogTimeout().AsDuration(); w < b.row.unfed-tolerance/2 {
		b.t.Errorf("it has fired after %v, and the agent reckons with %v", b.row.unfed, w)
	}
	if b.p.outside {
		return
	}
	if !strings.Contains(f.Found, "reset this machine on") {
		b.t.Errorf("doctor does not know of the trial: %s", f.Found)
	}
	b.says()
}

// says reads the file that the trial left.
func (b *bench) says() {
	text := b.run(lone, "cat "+control.DiskMount+"/lib/members-watchdog")
	all, err := calibration.Decode([]byte(text))
	if err != nil || len(all) == 0 {
		b.t.Fatalf("%v: %s", err, text)
	}
	b.kept = all[len(all)-1] // the trial before it was recorded before the watchdog was armed
	const now = 1            // stands for another boot
	if r := b.kept.Result(now); r != calibration.Fired {
		b.t.Errorf("the result in the file is %d: %+v", r, b.kept)
	}
	b.row.says = fmt.Sprintf("ran %s to %s of %s", seconds(b.kept.Ran), seconds(b.kept.Latest()), seconds(b.kept.Timeout))
	// These are the results by the table alone and by the measurement alone.
	table := watchdog.Driver{Identity: b.p.identity}.Latest(b.kept.Timeout)
	other := b.kept
	other.Identity = "unknown"
	alone := watchdog.Driver{Identity: other.Identity, Measured: calibration.Measured([]calibration.Trial{other}, other.Identity, other.Firmware, now)}.Latest(b.kept.Timeout)
	b.logf("it fires within %s by the table, and within %s by the trial", seconds(table), seconds(alone))
	for by, latest := range map[string]time.Duration{"table": table, "trial": alone} {
		if latest < b.row.unfed-tolerance/2 {
			b.t.Errorf("by the %s it fires within %v, and it has fired after %v", by, latest, b.row.unfed)
		}
	}
}

// refused: a watchdog that did not fire is not armed, and the agent and doctor say why.
func (b *bench) refused(doctor string) {
	if doctor != "wrong" {
		b.t.Errorf("doctor takes the watchdog for %s", doctor)
	}
	b.service(lone, "start")
	const why = "did not reset this node when that was tried"
	var status *fencingv1.Status
	b.eventually(time.Now().Add(upLimit), "the agent refuses the watchdog", func() string {
		status = b.status(b.t.Context(), lone)
		if status.GetWatchdog().GetError() == "" {
			return fmt.Sprintf("it says %v", status.GetWatchdog())
		}
		return ""
	})
	w := status.GetWatchdog()
	if w.GetArmed() || !strings.Contains(w.GetError(), why) || w.GetState() != fencingv1.WatchdogState_WATCHDOG_STATE_FAULTY {
		b.t.Errorf("the agent says %v", w)
	}
	b.logf("refused: %s", w.GetError())
}

// starvesAndIsKilled: the agent hangs and is killed just before the watchdog fires, which starts the countdown once
// more. No reset of a node that nobody sees can come later, and FENCED must not come before it.
func (b *bench) starvesAndIsKilled() {
	b.service(lone, "norestart")
	last := b.hangs()
	b.until(last.Add(b.p.fires - 2*time.Second))
	b.run(lone, killAgent)
	at, _ := b.resetBy(b.p.fires)
	b.row.killed = at.Sub(last)
	if b.row.killed < b.p.fires {
		b.t.Errorf("reset %v after the last contact: the agent was not killed in time", b.row.killed)
	}
	if b.row.killed > b.row.dead {
		b.t.Errorf("FENCED %v after the last contact, and the reset came after %v", b.row.dead, b.row.killed)
	}
	// This is the harm of a driver that is this late without the agent's knowledge: FENCED while the machine still
	// runs.
	if short := b.row.before < b.row.killed; short != b.p.unlisted {
		b.t.Errorf("before the trial FENCED came %v after the last contact, and the reset after %v", b.row.before, b.row.killed)
	}
}
