// Command fencing-agent runs on every node of a node group. It gossips on every SystemNetwork, arbitrates equal splits
// on a shared LUN, feeds or starves the node's watchdog, and publishes on a Unix socket which nodes are available.
//
// Exit codes: 0 after a planned stop, 1 if it cannot start or continue, 2 for bad usage.
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

	"golang.org/x/term"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/agent"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/fdstore"
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version = ""

const usage = `fencing-agent decides with its peers which nodes of a group may run, and feeds this node's watchdog accordingly.

Usage:
  fencing-agent --config FILE [--log-format text|json] [--log-level LEVEL]
  fencing-agent --version

Flags:
  --config FILE         configuration (YAML); check it with: fencectl config check FILE
  --log-format FORMAT   text or json (default: text on a terminal, else json)
  --log-level LEVEL     debug, info, warn or error (default info)
  --version             print the version and exit

Examples:
  fencing-agent --config /etc/fencing-agent/agent.yaml
  NODE_NAME=n1 NODE_GROUP=worker fencing-agent --config agent.yaml --log-format json

Signals: SIGTERM and SIGINT stop as planned (peers are told, the watchdog is disarmed). SIGHUP is
ignored: a changed list of members is noticed by itself, the rest needs a restart.
Exit codes: 0 planned stop, 1 cannot start or go on, 2 bad usage.
Configuration keys: docs/configuration.md
`

func main() {
	outliveOnlookers()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// outliveOnlookers lets the agent continue when the terminal is closed or its log is no longer read. If it ended then,
// the watchdog would stay armed, and systemd, which treats both signals as a clean exit, would not start the agent
// again. Go ends a program that writes to a broken stderr by SIGPIPE, even if the signal was ignored at its start.
func outliveOnlookers() { signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE) }

type flags struct {
	config, format string
	level          slog.Level
	version        bool
}

func run(args []string, stdout, stderr io.Writer) int {
	f, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "fencing-agent: %v; see fencing-agent --help\n", err)
		return 2
	case f.version:
		fmt.Fprintln(stdout, "fencing-agent", versionText())
		return 0
	}
	if err := serve(f, stderr); err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			fmt.Fprintf(stderr, "fencing-agent: %s\n", line)
		}
		return 1
	}
	return 0
}

func parse(args []string, stdout io.Writer) (flags, error) {
	var f flags
	fs := flag.NewFlagSet("fencing-agent", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&f.config, "config", "", "")
	fs.StringVar(&f.format, "log-format", "", "")
	level := fs.String("log-level", "info", "")
	fs.BoolVar(&f.version, "version", false, "")
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return f, err
	case err != nil:
		return f, err
	case fs.NArg() > 0:
		return f, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case f.version:
		return f, nil
	case f.config == "":
		return f, errors.New("--config FILE is missing")
	case f.format != "" && f.format != "text" && f.format != "json":
		return f, fmt.Errorf("--log-format is %q, but must be text or json", f.format)
	case f.level.UnmarshalText([]byte(*level)) != nil:
		return f, fmt.Errorf("--log-level is %q, but must be debug, info, warn or error", *level)
	}
	return f, nil
}

func serve(f flags, stderr io.Writer) error {
	store := fdstore.Take(fdstore.Environment{PID: os.Getpid(), Getenv: os.Getenv, Unsetenv: os.Unsetenv})
	pipe := newLogPipe(stderr)
	defer pipe.close()
	log := logger(f, stderr, pipe)
	cfg, warnings, err := config.Load(f.config, os.Getenv)
	for _, w := range config.Lines(f.config, warnings) {
		log.Warn("the configuration has a weak point", "warning", w)
	}
	if err != nil {
		return err
	}
	if effective, err := cfg.YAML(); err == nil {
		log.Debug("this configuration is in effect", "yaml", string(effective))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	o := agent.Options{Config: cfg, ConfigPath: f.config, Logger: log, Version: versionText()}
	if store != nil {
		o.Store = store
	}
	return agent.Run(ctx, o)
}

// logger writes to out in the format that fits stderr, unless a format was asked for.
func logger(f flags, stderr, out io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: f.level, ReplaceAttr: readable}
	file, isFile := stderr.(*os.File)
	if f.format == "text" || f.format == "" && isFile && term.IsTerminal(int(file.Fd())) {
		return slog.New(slog.NewTextHandler(out, o))
	}
	return slog.New(slog.NewJSONHandler(out, o))
}

// readable prints durations as "5s" in JSON, too, where they would be nanoseconds.
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
