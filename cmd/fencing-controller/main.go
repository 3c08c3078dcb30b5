// Command fencing-controller runs in the cluster and gets the pods off nodes that the agents have proven dead: it
// believes them by the rules of k8s/belief, sets the taint out-of-service, deletes the pods without grace, and takes
// the taint off when the node is back. All replicas work; there is no leader.
//
// Exit codes: 0 after SIGTERM or SIGINT, 1 when it cannot start or go on, 2 for bad usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-controller/config"
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version = ""

const usage = `fencing-controller gets the pods off nodes that fencing-agent has proven dead.

Usage:
  fencing-controller --config FILE [--log-level LEVEL]
  fencing-controller --config FILE --check
  fencing-controller storage ...      another job, see fencing-controller storage --help
  fencing-controller --version

Flags:
  --config FILE       configuration (YAML)
  --check             read the configuration, report its problems, and exit
  --log-level LEVEL   debug, info, warn or error (default info); the log is JSON on stderr
  --version           print the version and exit

It writes nothing on Nodes and pods until dryRun is false. The environment variables POD_NAME and POD_NAMESPACE name this
replica and its namespace, so that it finds the other replicas.

Exit codes: 0 stopped by SIGTERM or SIGINT, 1 cannot start or go on, 2 bad usage.
What it does, step by step: docs/controller.md

A configuration with every key, at its default:

`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

type flags struct {
	config         string
	level          slog.Level
	check, version bool
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "storage" {
		return runStorage(args[1:], stdout, stderr)
	}
	f, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "fencing-controller: %v; see fencing-controller --help\n", err)
		return 2
	case f.version:
		fmt.Fprintln(stdout, "fencing-controller", versionText())
		return 0
	}
	c, err := config.Load(f.config)
	if err == nil && !f.check {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		log := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: f.level, ReplaceAttr: readable}))
		err = serve(ctx, c, log, self())
	}
	if err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			fmt.Fprintf(stderr, "fencing-controller: %s\n", line)
		}
		return 1
	}
	return 0
}

func parse(args []string, stdout io.Writer) (flags, error) {
	var f flags
	fs := flag.NewFlagSet("fencing-controller", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&f.config, "config", "", "")
	level := fs.String("log-level", "info", "")
	fs.BoolVar(&f.check, "check", false, "")
	fs.BoolVar(&f.version, "version", false, "")
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage+indent(config.Example()))
		return f, err
	case err != nil:
		return f, err
	case fs.NArg() > 0:
		return f, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case f.version:
		return f, nil
	case f.config == "":
		return f, errors.New("--config FILE is missing")
	case f.level.UnmarshalText([]byte(*level)) != nil:
		return f, fmt.Errorf("--log-level %q: debug, info, warn or error is allowed", *level)
	}
	return f, nil
}

func indent(text string) string {
	return "  " + strings.TrimSuffix(strings.ReplaceAll(text, "\n", "\n  "), "  ")
}

// readable prints durations as "5s" in JSON, where they would be nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "dev"
}
