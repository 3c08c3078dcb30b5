// Command fencing-executor runs one action of one fence agent and says how it ended. A Job of fencing-controller runs it,
// in an image that holds the agents.
//
// It merges a method with its template and its mounted Secrets, checks them against what the agent supports, and
// passes them to the agent on its standard input: never as arguments, which ps shows, nor in the environment. After
// off it asks for the status, and only off is a success. What it prints, and writes as the pod's termination message,
// contains no secrets.
//
// Exit codes: 0 the action was carried out and, for off, confirmed; 1 it was not, or that is unknown; 2 bad usage.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
)

const usage = `fencing-executor runs one action of a fence agent.

Usage:
  fencing-executor run --dir DIR --not-after TIME [--digest DIGEST] [--node NAME] [--action check|monitor|plan]
  fencing-executor metadata [--agents DIR]
  fencing-executor try [--agents DIR] [--only NAME,NAME]

run: DIR holds method/method.properties, template/template.properties and secrets/SECRET/KEY, as the Job mounts
them. The action is the method's; check asks whether the plug is off and switches nothing, monitor whether the
device answers. plan asks no device: it looks whether all methods of a node, DIR/plan/0 and so on, are possible at
all: agents, options, Secrets. An option that its agent does not know is left out, as the agent would.

Nothing is begun after TIME (RFC 3339), and what runs is ended then.

metadata: prints what all agents of DIR (/usr/sbin) know, for "kubectl fence config check --agents".

try: runs the status of all agents of DIR against a device on loopback that lets nobody in, also by ssh and TLS where
they offer that, and prints the names of those that end for want of a program, a library or a name, which the image is
built without. What it found of each is on standard error.

Exit codes: 0 done, and confirmed if it was off; 1 not done, or unknown; 2 bad usage.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// flags are the flags of all commands.
type flags struct {
	dir, digest, node, action, agents, message, only string
	notAfter                                         time.Time
}

func run(ctx context.Context, args []string, out, diag io.Writer) int {
	if len(args) == 0 || args[0] == "--help" || args[0] == "-h" {
		fmt.Fprint(out, usage)
		return 0
	}
	f, err := parse(args[0], args[1:])
	if err != nil {
		fmt.Fprintf(diag, "fencing-executor: %v; see fencing-executor --help\n", err)
		return 2
	}
	switch args[0] {
	case "try":
		return tryAll(ctx, f, out, diag)
	case "metadata":
		return printMetadata(ctx, f.agents, out, diag)
	}
	r := execute(ctx, f)
	text, err := json.Marshal(r)
	if err == nil {
		fmt.Fprintln(out, string(text))
		err = os.WriteFile(f.message, text, 0o644)
	}
	if err != nil && f.message != os.DevNull { // the exit code also says how it ended
		fmt.Fprintf(diag, "fencing-executor: say how it ended: %v\n", err)
	}
	if !r.OK {
		return 1
	}
	return 0
}

func parse(command string, args []string) (flags, error) {
	var f flags
	fs := flag.NewFlagSet(command, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&f.agents, "agents", "/usr/sbin", "")
	notAfter := ""
	if command == "run" {
		fs.StringVar(&f.dir, "dir", "", "")
		fs.StringVar(&f.digest, "digest", "", "")
		fs.StringVar(&f.node, "node", "", "")
		fs.StringVar(&f.action, "action", "", "")
		fs.StringVar(&f.message, "message", os.DevNull, "")
		fs.StringVar(&notAfter, "not-after", "", "")
	}
	if command == "try" {
		fs.StringVar(&f.only, "only", "", "")
	}
	if command != "run" && command != "metadata" && command != "try" {
		return f, fmt.Errorf("there is no command %q", command)
	}
	if err := fs.Parse(args); err != nil {
		return f, err
	}
	if command != "run" {
		return f, nil
	}
	var err error
	switch f.notAfter, err = time.Parse(time.RFC3339, notAfter); {
	case err != nil:
		return f, fmt.Errorf("--not-after is %q; allowed: a time such as 2026-03-01T12:00:00Z", notAfter)
	case f.dir == "":
		return f, errors.New("--dir is missing")
	case f.action != "" && f.action != actionCheck && f.action != actionMonitor && f.action != actionPlan:
		return f, fmt.Errorf("--action is %q; allowed: check, monitor, plan", f.action)
	}
	return f, nil
}

// result is the output that the controller reads.
type result struct {
	OK      bool   `json:"ok"`
	Agent   string `json:"agent,omitempty"`
	Action  string `json:"action,omitempty"`
	Status  string `json:"status,omitempty"`  // on, off or unknown, if the status was asked for
	Barrier bool   `json:"barrier,omitempty"` // each logical unit was reset after off
	Message string `json:"message,omitempty"`
}

const changed = "the configuration has changed since this was planned: the next try reads it again"

// load reads the files that the Job has mounted.
func load(f flags) (fenceconfig.Method, map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(f.dir, "method", fenceconfig.MethodKey))
	if err != nil {
		return fenceconfig.Method{}, nil, fmt.Errorf("read the method: %w", err)
	}
	base, err := os.ReadFile(filepath.Join(f.dir, "template", fenceconfig.TemplateKey))
	if err != nil {
		return fenceconfig.Method{}, nil, fmt.Errorf("read the template: %w", err)
	}
	m, problems := fenceconfig.Merge("method", string(text), "template", string(base))
	for _, p := range problems {
		if !p.Warning {
			return m, nil, errors.New(p.String())
		}
	}
	if f.digest != "" && m.Digest() != f.digest {
		return m, nil, errors.New(changed)
	}
	secrets := map[string]string{}
	for _, s := range m.Secrets {
		value, err := os.ReadFile(filepath.Join(f.dir, "secrets", s.Secret, s.Item))
		if err != nil {
			return m, nil, fmt.Errorf("read the secret for %s: %w", s.Key, err)
		}
		secrets[s.Key] = trimNewline(string(value))
	}
	return m, secrets, nil
}
