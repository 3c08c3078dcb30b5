package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
)

var update = flag.Bool("rewrite", false, "rewrite the expected output in the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"fencectl": main, pluginName: main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exit": expectExit},
	})
}

// expectExit is the script command "exit CODE COMMAND ARG...": it runs a command and
// compares its exit code.
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

// runIn runs a command line in-process.
func runIn(t *testing.T, stdin string, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), &environment{
		name: "/usr/bin/fencectl", stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs,
		getenv: func(key string) string { return env[key] },
	}, args)
	return code, out.String(), errs.String()
}

// TestEveryVerbIsDocumented checks that every command, also one added later, keeps the promises of the tool: it has
// help, an example, and -o where it prints data.
func TestEveryVerbIsDocumented(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		path := c.CommandPath()
		if c.Short == "" || c.Long == "" {
			t.Errorf("%s lacks Short or Long", path)
		}
		if c.RunE == nil || c.Run != nil {
			t.Errorf("%s does not return its errors", path)
		}
		if !c.HasSubCommands() && (c.Example == "" || !strings.Contains(c.Example, "fencectl ")) {
			t.Errorf("%s lacks an example", path)
		}
		if strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: Short ends in a full stop", path)
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRootCommand(&environment{name: "fencectl"}))
}

func TestCheckReadsStdin(t *testing.T) {
	const file = `
nodeGroup: worker
systemNetworks: [{name: mgmt, at: 10.0.0.1}]
members: {static: [{name: n1, addresses: {mgmt: 10.0.0.1}}]}
`
	code, stdout, stderr := runIn(t, file, map[string]string{"NODE_NAME": "n1"}, "config", "check", "-", "-o", "json")
	if code != exitOK || strings.Contains(stderr, "warning") {
		t.Fatalf("exit %d, stderr %q", code, stderr)
	}
	var got struct {
		NodeName string `json:"nodeName"`
		Watchdog struct {
			Timeout string `json:"timeout"`
		} `json:"watchdog"`
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || got.NodeName != "n1" || got.Watchdog.Timeout != "30s" {
		t.Errorf("got %+v, %v from %s", got, err, stdout)
	}
	if code, _, stderr := runIn(t, "nodeGroup: [", nil, "config", "check", "-"); code != exitFailed || !strings.HasPrefix(stderr, "fencectl: stdin:") {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}
}

// TestConfigCheckOfAnEndlessInputEndsWithCtrlC reads from a terminal without input.
func TestConfigCheckOfAnEndlessInputEndsWithCtrlC(t *testing.T) {
	stdin, typed := io.Pipe()
	defer typed.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	var out, errs bytes.Buffer
	env := &environment{name: "fencectl", stdin: stdin, stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
	if code := run(ctx, env, []string{"config", "check", "-"}); code != exitFailed || !strings.Contains(errs.String(), "interrupt signal received") {
		t.Errorf("exit %d, stderr %q", code, errs.String())
	}
}

// TestLUNNamesAreThoseOfTheConfiguration: an agent could never use a LUN with another name.
func TestLUNNamesAreThoseOfTheConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lun.img")
	for _, name := range []string{"", "a b", "-x", "\x1b[31m", strings.Repeat("a", 64)} {
		for _, args := range [][]string{{"--cluster", name, "--node-group", "g"}, {"--cluster", "c", "--node-group", name}} {
			code, _, stderr := runIn(t, "", nil, append([]string{"lun", "init", path, "--create", "--slots", "4"}, args...)...)
			if code != exitUsage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "is not usable") {
				t.Errorf("%q: exit %d, stderr %q", args, code, stderr)
			}
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file was made: %v", err)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestUnwritableOutputIsAFailure(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}, {"version", "-o", "json"}, {"completion", "bash"}} {
		var errs bytes.Buffer
		env := &environment{name: "fencectl", stdout: fullDisk{}, stderr: &errs, getenv: os.Getenv}
		if code := run(t.Context(), env, args); code != exitFailed || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%v: exit %d, stderr %q", args, code, errs.String())
		}
	}
}

// TestErrorsBeforeTheVerbAreBadUsage covers the errors of cobra itself.
func TestErrorsBeforeTheVerbAreBadUsage(t *testing.T) {
	failing := func() *cobra.Command {
		verb := &cobra.Command{Use: "verb", RunE: func(*cobra.Command, []string) error { return errors.New("the operation failed") }}
		verb.Flags().String("needed", "", "")
		if err := verb.MarkFlagRequired("needed"); err != nil {
			t.Fatal(err)
		}
		return verb
	}
	for _, tt := range []struct {
		args    []string
		started bool
	}{{[]string{"verb"}, false}, {[]string{"verb", "--needed", "x"}, true}} {
		root := newGroup("test COMMAND", "", "", failing())
		root.SilenceErrors, root.SilenceUsage = true, true
		root.SetArgs(tt.args)
		started := markStart(root)
		if err := root.Execute(); err == nil || *started != tt.started {
			t.Errorf("%v: error %v, started %v", tt.args, err, *started)
		}
	}
}

// TestElsewhere: on other systems a command that needs Linux is refused in one line, and its help is there.
func TestElsewhere(t *testing.T) {
	env := &environment{name: "kubectl-fence"}
	verb := func(out io.Writer, args ...string) error {
		root := newGroup("fencectl COMMAND", "", "", needsLinux(env, "lun", "Format a LUN"))
		root.SilenceErrors, root.SilenceUsage = true, true
		root.SetOut(out)
		root.SetArgs(append([]string{"lun"}, args...))
		return root.Execute()
	}
	err := verb(io.Discard, "init", "/dev/disk4", "--cluster", "main", "--slots=4")
	if want := "kubectl fence lun needs Linux, and this is " + runtime.GOOS + ": run it on a node"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	var help bytes.Buffer
	if err := verb(&help, "--help"); err != nil || !strings.Contains(help.String(), "It needs Linux") {
		t.Errorf("error %v, help %q", err, help.String())
	}
}

func TestVersionOf(t *testing.T) {
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}
	tests := []struct {
		name, linked      string
		build             *debug.BuildInfo
		version, revision string
	}{
		{"linker wins", "v1.2.3", &debug.BuildInfo{Main: debug.Module{Version: "v9.9.9"}}, "v1.2.3", ""},
		{"module version", "dev", &debug.BuildInfo{Main: debug.Module{Version: "v9.9.9"}}, "v9.9.9", ""},
		{"work tree", "dev", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs}, "dev", "abc-dirty"},
		{"clean tree", "dev", &debug.BuildInfo{Settings: vcs[:1]}, "dev", "abc"},
		{"nothing known", "dev", nil, "dev", ""},
	}
	for _, tt := range tests {
		if got := versionOf(tt.linked, tt.build); got.Version != tt.version || got.Revision != tt.revision {
			t.Errorf("%s: got %+v", tt.name, got)
		}
	}
}
