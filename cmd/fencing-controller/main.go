// Command fencing-controller runs in the cluster and gets the pods off nodes that the agents have proven dead: it
// believes them by the rules of k8s/belief, sets the taint out-of-service, deletes the pods without grace, and removes
// the taint when the node is back. All replicas work; there is no leader.
//
// Exit codes: 0 after SIGTERM or SIGINT, 1 when it cannot start or go on, 2 for bad usage.
package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-controller/config"
	"github.com/fencing-agent/fencing-agent/k8s/program"
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version = ""

const usage = `fencing-controller gets the pods off nodes that fencing-agent has proven dead.

Usage:
  fencing-controller --config FILE [--log-level LEVEL]
  fencing-controller --config FILE --check
  fencing-controller storage ...      another job, see fencing-controller storage --help
  fencing-controller --version

It writes nothing on Nodes and pods until dryRun is false. The environment variables POD_NAME and POD_NAMESPACE name this
replica and its namespace, so that it finds the other replicas.

Exit codes: 0 stopped by SIGTERM or SIGINT, 1 cannot start or go on, 2 bad usage.
What it does, step by step: docs/controller.md

A configuration with every key, at its default:

`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "storage" {
		return runStorage(args[1:], stdout, stderr)
	}
	f := program.NewFlags("fencing-controller", version)
	file := f.String("config", "", "configuration `FILE` (YAML)")
	check := f.Bool("check", false, "read the configuration, report its problems, and exit")
	err := f.Read(args, stdout, usage+"  "+strings.ReplaceAll(strings.TrimSpace(config.Example()), "\n", "\n  ")+"\n\nFlags (one dash or two):\n")
	if err == nil {
		f.Wrong(*file == "", "--config FILE is missing")
		err = f.Check()
	}
	return f.Main(err, stderr, func(ctx context.Context, log *slog.Logger) error {
		c, err := config.Load(*file)
		if err != nil || *check {
			return err
		}
		return serve(ctx, c, log, self(), f.Version)
	})
}
