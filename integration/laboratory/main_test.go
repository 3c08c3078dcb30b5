package main

import (
	"bytes"
	"flag"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
)

var update = flag.Bool("rewrite", false, "rewrite the expected output in the scripts")

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"laboratory": main}) }

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exit": expectExit},
	})
}

// expectExit is the script command "exit CODE COMMAND ARG...": it runs a command and compares its exit code.
func expectExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE COMMAND ARG...")
	}
	code := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("%s: exit code %s, want %s", strings.Join(args[1:], " "), code, args[0])
	}
}

// TestHelpFitsOnTheScreen: the help of every command has an example and fits into 80 columns.
func TestHelpFitsOnTheScreen(t *testing.T) {
	var out bytes.Buffer
	env := &environment{stdout: &out, stderr: &out}
	root := newRootCommand(env)
	for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
		if c.Hidden {
			continue
		}
		out.Reset()
		args := append(strings.Fields(c.CommandPath())[1:], "--help")
		if code := run(t.Context(), env, args); code != exitOK {
			t.Errorf("%v: exit code %d", args, code)
		}
		if !strings.Contains(out.String(), "\nExamples:\n") || c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s lacks an example or a short line without a full stop:\n%s", c.CommandPath(), out.String())
		}
		for line := range strings.Lines(out.String()) {
			if len([]rune(line)) > 81 { // including the line break
				t.Errorf("%s: wider than 80 columns: %s", c.CommandPath(), line)
			}
		}
	}
}
