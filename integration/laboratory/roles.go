package main

import (
	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/integration/lab"
)

// Hidden commands, with which this program starts itself.
const (
	roleProbe = "probe-namespaces" // finds out whether namespaces can be made
	roleBoot  = "boot"             // executes an agent in a boot of its own
)

func newProbeCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use: roleProbe, Hidden: true, Args: noOperands,
		RunE: func(*cobra.Command, []string) error { return lab.ProbeMain(env.stdout) },
	}
}

func newBootCommand() *cobra.Command {
	return &cobra.Command{
		Use: roleBoot, Hidden: true,
		DisableFlagParsing: true, // the flags are those of the program that it executes
		RunE:               func(_ *cobra.Command, args []string) error { return lab.ExecInBoot(args) },
	}
}
