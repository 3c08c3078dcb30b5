package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/cmd/fencectl/doctor"
	"github.com/fencing-agent/fencing-agent/cmd/fencectl/trial"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

func newWatchdogCommand(env *environment) *cobra.Command {
	return newGroup("watchdog COMMAND", "Look at this machine's watchdogs, or try one",
		"Look at the watchdogs of this machine, as sysfs shows them, or try whether one of them resets the machine.",
		newWatchdogListCommand(env), newWatchdogTestCommand(env))
}

func newWatchdogListCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List watchdogs, their state, and who holds them",
		Long:    "List the watchdogs of this machine: driver, timeout, whether they count down, nowayout, and who holds them (as root).",
		Example: "  fencectl watchdog list\n  fencectl watchdog list -o json | jq -r '.[].identity'",
		Args:    operands(),
	}
	f := newMachineFlags(cmd)
	out := newPrinter(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		list := (&doctor.Machine{Root: f.root}).Watchdogs()
		if len(list) == 0 {
			return errors.New("there is no watchdog: load a driver, see \"fencectl doctor\"")
		}
		return out.print(env.stdout, list, func(t *table) {
			t.row("DEVICE", "DRIVER", "TIMEOUT", "STATE", "NOWAYOUT", "HELD BY")
			for _, w := range list {
				held := "nobody"
				if len(w.Holders) > 0 {
					held = view.Clean(strings.Join(w.Holders, ", "))
				}
				t.row("/dev/"+view.Clean(w.Name), cmp.Or(view.Clean(w.Identity), "unknown"), shown(w.Timeout), cmp.Or(view.Clean(w.State), "unknown"), map[bool]string{true: "yes", false: "no"}[w.NoWayOut], held)
			}
		})
	}
	return cmd
}

// leastTested is the shortest timeout of a test: in less, a reset by something else can hardly be told from the watchdog's.
const leastTested = 5 * time.Second

func newWatchdogTestCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test --yes-reset-this-node",
		Short: "Reset this machine by its watchdog, to see that it does",
		Long: `Arm a watchdog and do not feed it: the machine is reset within its timeout, or the watchdog is no protection. Everything
that runs here dies. Move it elsewhere first.

It refuses while an agent runs, while anybody holds a watchdog, and unless the kernel shows that the watchdog does not
count down. Stop the agent first (systemctl stop fencing-agent, or take its pod off the node): its peers then know that
nothing guards the node, and expect no reset. They see this one as a reboot.

What is about to happen is written to the agent's history and to the kernel's log before: after the boot, "fencectl
history --boot -1" and the agent say that it was a test. File systems are synced.

Some watchdogs fire late: iTCO_wdt after twice its timeout on many boards. So this waits for twice the timeout, or for as long
as the driver is known to take, and says what it sees; while the machine runs on, the history notes for how long it has. If it
still runs 30 seconds after that, the watchdog has failed; it is disarmed, and the exit code is 1. A watchdog that resets the
machine later than its timeout, and is not called late at the beginning, is one that the agent does not know: do not use it.

With --if-untried it tries each driver and firmware once, so that a unit may run it at every boot: if this watchdog has reset
this machine in a test before, it says so and exits with 0. Otherwise the exit code is 1: it has failed a test, or nothing
shows yet that the record outlives a reset. In that case it is marked, and the next boot tries the watchdog.`,
		Example: "  fencectl watchdog test --yes-reset-this-node\n  fencectl watchdog test --yes-reset-this-node --device identity:iTCO_wdt --timeout 15s",
		Args:    operands(),
	}
	flags := cmd.Flags()
	root := newMachineFlags(cmd)
	yes := flags.Bool("yes-reset-this-node", false, "this machine may be reset now")
	device := flags.String("device", "", "the `path` of the watchdog, or identity: and its driver's name (default: the only one there is)")
	timeout := flags.Duration("timeout", config.Default().Watchdog.Timeout, "the watchdog's timeout, in whole seconds")
	untried := flags.Bool("if-untried", false, "do nothing if this watchdog was tried on this machine, with this firmware")
	file := flags.String("file", config.Default().HistoryFile(), "the agent's history: members.cacheFile with -history in place of .json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		w, err := toTest(&doctor.Machine{Root: root.root}, *device)
		if err != nil {
			return err
		}
		path := "/dev/" + w.Name
		if !*yes {
			return usagef("%s (%s) would reset this machine %v after it is armed, with everything that runs on it: confirm with --yes-reset-this-node", path, cmp.Or(view.Clean(w.Identity), "unknown"), *timeout)
		}
		if *timeout < leastTested || *timeout%time.Second != 0 {
			return usagef("invalid argument %v for \"--timeout\" flag: it must be whole seconds, and at least %v", *timeout, leastTested)
		}
		chronicle := testRecord{env: env, file: *file, path: path}
		if *untried {
			if done, err := chronicle.tried(w.Identity); done || err != nil {
				return err
			}
			chronicle.identity = w.Identity
		}
		t := trial.Trial{
			Device: &trial.Watchdog{Path: path, NoWayOut: w.NoWayOut}, Name: path, Identity: w.Identity, Timeout: *timeout, Now: env.clock, Sync: syncDisks,
			Say: func(line string) { fmt.Fprintln(env.stdout, line) }, Last: chronicle.last, Failed: chronicle.failed,
			Latest: chronicle.latest, Keep: chronicle.keep,
		}
		signal.Ignore(syscall.SIGPIPE) // a lost session must not leave the watchdog armed while nothing records when it fires
		return forRoot(t.Run(cmd.Context()))
	}
	return cmd
}

// shown is a timeout as sysfs shows it.
func shown(text string) string {
	if text == "" {
		return "unknown"
	}
	return view.Clean(text) + "s"
}

// forRoot adds to a permission error what to do.
func forRoot(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: run this as root", err)
	}
	return err
}

// toTest is the watchdog to be tested.
//
// Invariant: it only opens a watchdog that no process holds and that the kernel shows as inactive, on a machine without
// an agent. Opening a watchdog feeds it. The watchdog of a boot that has condemned itself must count down to the end,
// since peers know when it ends.
func toTest(m *doctor.Machine, device string) (w doctor.Watchdog, err error) {
	list := m.Watchdogs()
	identity, byIdentity := strings.CutPrefix(device, "identity:")
	switch name := strings.TrimPrefix(device, "/dev/"); {
	case len(list) == 0:
		return w, errors.New("there is no watchdog: load a driver, see \"fencectl doctor\"")
	case byIdentity:
		same := slices.DeleteFunc(slices.Clone(list), func(d doctor.Watchdog) bool { return d.Identity != identity })
		if len(same) != 1 {
			return w, fmt.Errorf("%d watchdogs call themselves %q: see fencectl watchdog list", len(same), view.Clean(identity))
		}
		w = same[0]
	case device == "" && len(list) > 1:
		return w, usagef("there are %d watchdogs: name one with --device, see fencectl watchdog list", len(list))
	case device == "":
		w = list[0]
	default:
		if name == doctor.OutsideOfCore && list[0].Name != name {
			name = "watchdog0"
		}
		for _, d := range list {
			if d.Name == name {
				w = d
			}
		}
		if w.Name == "" {
			return w, fmt.Errorf("%s is not in /sys/class/watchdog, so that nobody can tell whether it counts down already: see fencectl watchdog list", view.Clean(device))
		}
	}
	if w.Name == doctor.OutsideOfCore {
		return w, fmt.Errorf("/dev/watchdog (%s) cannot be tried: its driver is not in /sys/class/watchdog, so that nobody can tell whether it counts down already. The agent can use it without a trial, unless watchdog.driver is tested; to have one, load a driver that is listed there", cmp.Or(view.Clean(w.Identity), "unknown"))
	}
	for _, d := range list {
		if len(d.Holders) > 0 {
			return w, fmt.Errorf("/dev/%s is held by %s: stop that first", view.Clean(d.Name), view.Clean(strings.Join(d.Holders, ", ")))
		}
		if d.State != "inactive" {
			return w, fmt.Errorf("/dev/%s is %s: only watchdogs that do not count down may be opened; if an agent was killed here, start it and stop it as planned", view.Clean(d.Name), cmp.Or(view.Clean(d.State), "in an unknown state"))
		}
	}
	if m.AgentRuns() {
		return w, errors.New("an agent runs on this machine, and would be reset before its peers know of it: stop it first")
	}
	return w, nil
}
