package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

func newConfigMigrateCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate FILE",
		Short: "Write an older configuration file with the keys of this version",
		Long: `Write a configuration file of an earlier version with the keys of this one, to standard output. What was
changed is told on standard error, and what has to be written by hand: such keys stay as they are, and an
agent refuses the file until somebody has. A file that has the keys of this version already is written as
it is. FILE may be - for standard input.

Comments stay with their keys, and go with those that nothing replaces. Blank lines are lost. Check the new
file with "fencectl config check" before an agent reads it.`,
		Example: `  fencectl config migrate /etc/fencing-agent/agent.yaml > agent.yaml.new`,
		Args:    operands("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			file := args[0]
			_, text, err := readInput(env.stdin, file)
			if err != nil {
				return err
			}
			m, err := config.Migrate(file, text)
			if err != nil {
				return err
			}
			for _, change := range m.Changed {
				fmt.Fprintf(env.stderr, "fencectl: %s: %s\n", file, change)
			}
			for _, key := range m.ByHand {
				fmt.Fprintf(env.stderr, "fencectl: warning: %s: left to you: %s\n", file, key)
			}
			_, err = env.stdout.Write(m.Text)
			return err
		},
	}
}
