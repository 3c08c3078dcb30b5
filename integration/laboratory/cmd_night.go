package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/night"
)

func newNightCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "night",
		Short: "Play a night on call through",
		Long: `Run a cluster of four real agents in network namespaces, with simulated
watchdogs, and play a night through: a page, the status, the page in the
browser, a reset, the history after it, a bundle for the ticket, maintenance,
and a death that a person confirms. Each step shows what to type and what is
seen; the exit code is 0 only if each showed what it must.

It takes root or unprivileged user namespaces. Nothing outside is touched.`,
		Example: `  laboratory night`,
		Args:    noOperands,
	}
	o := night.Options{Out: env.stdout, Launch: []string{roleBoot}, Armed: []string{roleArmed}}
	cmd.Flags().StringVar(&o.Bin, "bin", "bin", "`folder` with fencing-agent and fencectl")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch mode, reason := lab.Supported(cmd.Context(), roleProbe); mode {
		case lab.Root:
			return night.Run(cmd.Context(), o)
		case lab.UserNamespace:
			code, err := lab.Reexec(os.Args[1:])
			if err == nil && code != exitOK {
				err = errors.New("the night failed, see above")
			}
			return err
		default:
			return errors.New("network namespaces are not allowed here: " + reason)
		}
	}
	return cmd
}
