package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newCompletionCommand(env *environment) *cobra.Command {
	shells := map[string]func(root *cobra.Command) error{
		"bash":       func(root *cobra.Command) error { return root.GenBashCompletionV2(env.stdout, true) },
		"zsh":        func(root *cobra.Command) error { return root.GenZshCompletion(env.stdout) },
		"fish":       func(root *cobra.Command) error { return root.GenFishCompletion(env.stdout, true) },
		"powershell": func(root *cobra.Command) error { return root.GenPowerShellCompletionWithDesc(env.stdout) },
	}
	names := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a completion script for a shell",
		Long: `Print a script that completes commands and flags in a shell: ` + strings.Join(names, ", ") + `.

As a plugin of kubectl, completion needs no script but an executable named kubectl_complete-fence
in the PATH that runs: kubectl-fence __complete "$@"`,
		Example:   "  source <(fencectl completion bash)\n  fencectl completion zsh > \"${fpath[1]}/_fencectl\"",
		ValidArgs: names,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := operands("SHELL")(cmd, args); err != nil {
				return err
			}
			if shells[args[0]] == nil {
				return usagef("unknown shell %q: it must be one of %s", args[0], strings.Join(names, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := shells[args[0]](cmd.Root()); err != nil {
				return fmt.Errorf("print completion: %w", err)
			}
			return nil
		},
	}
}
