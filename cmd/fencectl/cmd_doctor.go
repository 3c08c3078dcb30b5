package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/cmd/fencectl/doctor"
)

// defaultConfig is the agent's configuration file if a package has installed the agent.
const defaultConfig = "/etc/fencing-agent/agent.yaml"

// configHere is the path of the agent's configuration: a package's or, in a pod of the chart, the mounted one.
func configHere() string {
	if !exists(defaultConfig) && exists(agentConfig) {
		return agentConfig
	}
	return defaultConfig
}

// machineFlags are the flags of the commands that look at a machine.
type machineFlags struct{ config, root string }

func newMachineFlags(cmd *cobra.Command) *machineFlags {
	f := &machineFlags{}
	cmd.Flags().StringVar(&f.root, "root", "/", "look at the file system below this `folder`, such as that of the node in a pod")
	return f
}

func newDoctorCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what keeps this machine from being fenced, or from staying up",
		Long: `Look at watchdogs and who holds them, systemd's own watchdog, the key file, networks and ports, and the time limits that
are in force on the LUN's paths: multipath, iSCSI, FC and NVMe. Each finding is one line: ok, warn or wrong, what was found, and what to do.

With a configuration it looks at the parts of the agent as the agent's start does, up to the point before it binds or
opens anything: which address it takes on each network, and whether sockets, ports, the watchdog and the folder of its
lists can be had. Below another --root these are left out.

It reads only, of devices none but the superblock of the LUN: nothing is changed, and nothing of a key is shown. Run
it as root on the node; other users do not see who holds a watchdog or a port. Without a configuration, what follows
from one is left out.

Exit codes: 0 nothing is wrong; 1 something is; 2 bad usage.`,
		Example: "  fencectl doctor\n  fencectl doctor --config agent.yaml -o json",
		Args:    operands(),
	}
	f := newMachineFlags(cmd)
	cmd.Flags().StringVar(&f.config, "config", configHere(), "`file` of the agent's configuration")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // fails for unknown flags only
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		m, err := f.machine(cmd.Context(), env, cmd.Flags().Changed("config"))
		if err != nil {
			return err
		}
		findings := m.Look()
		if m.Config == nil {
			findings = append(findings, doctor.Finding{
				Level: doctor.Warn, Subject: "configuration", Found: "there is none to be had from " + f.config + ": keys, networks and LUN were not looked at", Do: "say where it is with --config",
			})
		}
		// The folded column begins where the first finding begins.
		if err := out.printFolded(env, findings, view.Clean(findings[0].Found), func(t *table) { findingRows(t, findings) }); err != nil {
			return err
		}
		wrong := 0
		for _, f := range findings {
			if f.Level == doctor.Wrong {
				wrong++
			}
		}
		if wrong > 0 {
			return fmt.Errorf("%d of %d checks found something wrong: do what their lines say", wrong, len(findings))
		}
		return nil
	}
	return cmd
}

func findingRows(t *table, findings []doctor.Finding) {
	for _, f := range findings {
		text := view.Clean(f.Found)
		if f.Do != "" {
			text += "; " + view.Clean(f.Do)
		}
		t.row(string(f.Level), view.Clean(f.Subject), text)
	}
}

// machine is the machine to look at. If there is no file at the default place, there is no configuration; a file that
// the user names must exist.
func (f *machineFlags) machine(ctx context.Context, env *environment, named bool) (*doctor.Machine, error) {
	_, r, err := readConfig(ctx, env.stdin, f.config, env.getenv)
	if err != nil {
		if named {
			return nil, err
		}
		if text := err.Error(); !strings.Contains(text, "no such file") {
			env.warn("the configuration is not usable: " + text)
		}
		return &doctor.Machine{Root: f.root}, nil
	}
	return &doctor.Machine{Root: f.root, Config: r.Config, FormattedFor: formattedFor, Paths: lunPaths}, nil
}
