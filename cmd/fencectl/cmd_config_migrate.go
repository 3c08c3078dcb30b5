package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

func newConfigMigrateCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate FILE",
		Short: "Write an older configuration file with the keys of this version",
		Long: `Write a configuration file of an earlier version with the keys of this one, to standard output. What was
changed, and what no key of this version can say, is told on standard error. A file that has the keys of
this version already is written as it is.

Comments stay with their keys. Blank lines are lost. With --in-place the file is replaced, if anything has
to change, and what it was is kept beside it as FILE.before. FILE may be - for standard input.

Check the new file with "fencectl config check" before an agent reads it.`,
		Example: `  fencectl config migrate /etc/fencing-agent/agent.yaml
  fencectl config migrate /etc/fencing-agent/agent.yaml --in-place`,
		Args: operands("FILE"),
	}
	inPlace := cmd.Flags().Bool("in-place", false, "replace the file, and keep the old one as FILE.before")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		file := args[0]
		var text []byte
		var err error
		if file == "-" {
			if *inPlace {
				return usagef("--in-place needs a file, and standard input is none")
			}
			text, err = io.ReadAll(env.stdin)
		} else {
			text, err = os.ReadFile(file)
		}
		if err != nil {
			return fmt.Errorf("read configuration: %w", err)
		}
		m, err := config.Migrate(text)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, change := range m.Changed {
			fmt.Fprintf(env.stderr, "fencectl: %s: %s\n", file, change)
		}
		for _, lost := range m.Lost {
			fmt.Fprintf(env.stderr, "fencectl: warning: %s: not carried over: %s\n", file, lost)
		}
		if !*inPlace {
			_, err := env.stdout.Write(m.Text)
			return err
		}
		if bytes.Equal(m.Text, text) {
			fmt.Fprintf(env.stderr, "fencectl: %s: has the keys of this version already\n", file)
			return nil
		}
		return replaceKeeping(file, text, m.Text)
	}
	return cmd
}

// replaceKeeping writes a file again, and what it was beside it. Neither is ever half there. Of a link it is the file that it leads to.
func replaceKeeping(file string, old, text []byte) error {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return fmt.Errorf("replace: %w", err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("replace %s: %w", file, err)
	}
	whole := func(text []byte) func(io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(text); return err }
	}
	before, next := file+".before", file+".new"
	if err := makeFile(before, info.Mode().Perm(), whole(old)); err != nil {
		return fmt.Errorf("keep %s: %w", file, err)
	}
	err = makeFile(next, info.Mode().Perm(), whole(text))
	if err == nil {
		err = os.Rename(next, file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("replace %s: %w", file, err), os.Remove(before)) // it is as it was
	}
	return syncDir(filepath.Dir(file))
}
