package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// environment contains everything that a command may know about the process.
type environment struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	getenv func(string) string
}

// warn prints text to stderr, in one line for each line of the text.
func (e *environment) warn(text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(e.stderr, "laboratory: %s\n", strings.TrimSuffix(line, "\n"))
	}
}

// The exit codes are the same for all commands.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a mistake of the caller: the command line is wrong.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run executes the command line and returns the exit code.
func run(ctx context.Context, env *environment, args []string) int {
	root := newRootCommand(env)
	root.SetArgs(args)
	started := false // an error before the start concerns flags or arguments
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if usage := new(usageError); started && !errors.As(err, usage) {
		env.warn(err.Error())
		return exitFailed
	}
	env.warn(fmt.Sprintf("%v; see %s --help", err, cmd.CommandPath()))
	return exitUsage
}

func newRootCommand(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:                   "laboratory COMMAND",
		DisableFlagsInUseLine: true,
		Short:                 "Show, measure and break clusters of fencing-agent",
		Long: `Show, measure and break whole clusters of fencing-agent on one machine. It is
for people who work on the agent or get to know it; an operator's tool is
fencectl.

Results go to stdout, errors to stderr, one line each.
Exit codes: 0 ok, 1 the operation failed, 2 bad usage.`,
		Example:       "  laboratory demo\n  laboratory simulate --nodes 50 --scenario isolate --compare\n  sudo laboratory soak --duration 30m",
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs, // they are checked below, so that the error fits on one line
		RunE: func(cmd *cobra.Command, args []string) error {
			var names []string
			for _, c := range cmd.Commands() {
				if !c.Hidden {
					names = append(names, c.Name())
				}
			}
			if len(args) > 0 {
				return usagef("unknown command %q: there are %s", args[0], strings.Join(names, ", "))
			}
			return usagef("a command is missing, one of %s", strings.Join(names, ", "))
		},
	}
	root.AddCommand(newDemoCommand(env), newSimulateCommand(env), newSoakCommand(env), newNightCommand(env), newBootCommand(), newArmedCommand(env))
	root.CompletionOptions.DisableDefaultCmd = true
	// Cobra's own help command returns success for an unknown topic.
	root.SetHelpCommand(&cobra.Command{Hidden: true})
	root.SetUsageTemplate(usageTemplate)
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	return root
}

// usageTemplate is cobra's template without the repetitions, and at most 80 columns wide.
const usageTemplate = `Usage:
  {{.UseLine}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

Use "{{.CommandPath}} COMMAND --help" for more about a command.{{end}}
`

// noOperands refuses arguments that are not flags.
func noOperands(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%q is one argument too many", args[0])
	}
	return nil
}
