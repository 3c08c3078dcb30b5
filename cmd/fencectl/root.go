package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// environment is all that a verb may know about its process.
type environment struct {
	name   string // how the program was called, argv[0]
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	getenv func(string) string
	now    func() time.Time // nil: the wall clock
}

// clock is the wall-clock time, for people only.
func (e *environment) clock() time.Time {
	if e.now == nil {
		return time.Now()
	}
	return e.now()
}

// zone is the time zone in which times are shown.
func (e *environment) zone() *time.Location {
	if name := e.getenv("TZ"); name != "" {
		if zone, err := time.LoadLocation(name); err == nil {
			return zone
		}
	}
	return time.Local
}

// pluginName is the file name under which kubectl finds a plugin called fence.
const pluginName = "kubectl-fence"

// command is the command as its user types it.
func (e *environment) command() string {
	if filepath.Base(e.name) == pluginName {
		return "kubectl fence"
	}
	return "fencectl"
}

// warn prints text to stderr, one line of output for each line of it.
func (e *environment) warn(text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(e.stderr, "%s: %s\n", e.command(), strings.TrimSuffix(line, "\n"))
	}
}

func (e *environment) warnings(all []string) {
	for _, w := range all {
		e.warn("warning: " + w)
	}
}

// Exit codes, the same for every verb.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitTimeout = 3 // waited in vain; the command itself is correct
)

// timeoutError means that a wait ended without success. It contains what was waited for.
type timeoutError struct{ error }

func (e timeoutError) Unwrap() error { return e.error }

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef makes a usageError.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run executes the command line and returns the exit code.
func run(ctx context.Context, env *environment, args []string) int {
	root := newRootCommand(env)
	root.SetArgs(args)
	started := markStart(root)
	cmd, err := root.ExecuteContextC(ctx)
	if says := helpForAnswer(cmd); err == nil && says != "" {
		env.warn(says)
		return exitUsage
	}
	if err == nil {
		return exitOK
	}
	if usage := new(usageError); *started && !errors.As(err, usage) {
		env.warn(err.Error())
		if errors.As(err, new(timeoutError)) {
			return exitTimeout
		}
		return exitFailed
	}
	env.warn(fmt.Sprintf("%v; see %s --help", err, cmd.CommandPath()))
	return exitUsage
}

// newRootCommand returns the whole tree of commands. New verbs are added here.
func newRootCommand(env *environment) *cobra.Command {
	root := newGroup("fencectl COMMAND", "Look after fencing-agent", `fencectl asks agents, LUNs and a whole cluster how they are.

It checks configurations, shows what happened, and takes nodes out of service. By kubectl it asks a cluster from anywhere.

Results go to stdout, errors to stderr, one line each.
Exit codes: 0 ok, 1 the operation failed, 2 bad usage, 3 what was waited for has not come in time.`,
		newConfigCommand(env),
		newLunCommand(env),
		newStatusCommand(env),
		newWatchCommand(env),
		newWaitCommand(env),
		newHistoryCommand(env),
		newDoctorCommand(env),
		newWatchdogCommand(env),
		newFenceCommand(env),
		newNodeCommand(env),
		newMaintenanceCommand(env),
		newConfirmDeadCommand(env),
		newExplainCommand(env),
		newCompletionCommand(env),
		newVersionCommand(env),
	)
	root.Example = "  fencectl status\n  fencectl config check /etc/fencing-agent/agent.yaml"
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	root.SetHelpCommand(newHelpCommand())
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(usageTemplate)
	ask := root.Flags().Bool("version", false, "print the version, as the command version does in full")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return unknownCommand(cmd, args[0])
		case *ask:
			return printVersion(env)
		}
		return cmd.Help()
	}
	if filepath.Base(env.name) == pluginName {
		asPlugin(root, env.command())
	}
	return root
}

// flagError describes what is allowed if a flag's value cannot be read, instead of the parser's message.
func flagError(_ *cobra.Command, err error) error {
	invalid := new(pflag.InvalidValueError)
	if !errors.As(err, &invalid) {
		return err
	}
	wanted := map[string]string{"int": "a whole number is needed", "duration": "a duration is needed, such as 30s or 2h", "bool": "true or false is needed"}[invalid.GetFlag().Value.Type()]
	if wanted == "" {
		return err
	}
	return fmt.Errorf("invalid argument %q for %q flag: %s", invalid.GetValue(), "--"+invalid.GetFlag().Name, wanted)
}

// usageTemplate is cobra's template without the repetitions.
const usageTemplate = `Usage:
  {{.UseLine}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

Use "{{.CommandPath}} COMMAND --help" for more about a command.{{end}}
`

// asPlugin makes help and examples show the command that a user of kubectl types.
func asPlugin(root *cobra.Command, command string) {
	root.Use = strings.Replace(root.Use, root.Name(), pluginName, 1)
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: command}
	var rename func(*cobra.Command)
	rename = func(c *cobra.Command) {
		c.Example = strings.ReplaceAll(c.Example, "fencectl ", command+" ")
		for _, sub := range c.Commands() {
			rename(sub)
		}
	}
	rename(root)
}

// newGroup returns a command that only has subcommands.
func newGroup(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{
		Use:                        use,
		DisableFlagsInUseLine:      true,
		Short:                      short,
		Long:                       long,
		Args:                       cobra.ArbitraryArgs, // checked below, with an error in one line
		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			var names []string
			for _, c := range cmd.Commands() {
				names = append(names, c.Name())
			}
			return usagef("a command is missing, one of %s", strings.Join(names, ", "))
		},
	}
	group.AddCommand(commands...)
	return group
}

// unknownCommand names the command that was probably meant.
func unknownCommand(cmd *cobra.Command, name string) error {
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return usagef("unknown command %q, perhaps %q", name, near[0])
	}
	return usagef("unknown command %q", name)
}

// operands requires one argument for each name, such as FILE.
func operands(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usagef("%s is missing", names[len(args)])
		case len(args) > len(names):
			return usagef("%q is one argument too many", args[len(names)])
		}
		return nil
	}
}

// optional allows one argument.
func optional(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("%q is one argument too many", args[1])
	}
	return nil
}

// markStart wraps every verb, so that an error about flags or arguments, from before the verb started, can be
// distinguished from the verb's own errors.
func markStart(root *cobra.Command) *bool {
	started := new(bool)
	var wrap func(*cobra.Command)
	wrap = func(c *cobra.Command) {
		if verb := c.RunE; verb != nil {
			c.RunE = func(cmd *cobra.Command, args []string) error {
				*started = true
				return verb(cmd, args)
			}
		}
		for _, sub := range c.Commands() {
			wrap(sub)
		}
	}
	wrap(root)
	return started
}
