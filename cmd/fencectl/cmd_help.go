package main

import "github.com/spf13/cobra"

// newHelpCommand replaces cobra's command, which exits with 0 for an unknown topic.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Explain a command",
		Long:    "Explain a command, as its --help does.",
		Example: "  fencectl help config check",
		RunE: func(cmd *cobra.Command, args []string) error {
			topic := cmd.Root()
			for _, name := range args {
				var next *cobra.Command
				for _, c := range topic.Commands() {
					if c.Name() == name || c.HasAlias(name) {
						next = c
					}
				}
				if next == nil {
					return unknownCommand(topic, name)
				}
				topic = next
			}
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
	}
}
