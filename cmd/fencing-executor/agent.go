package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/fencing-agent/fencing-agent/k8s/fenceconfig"
)

const (
	actionCheck, actionMonitor = "check", "monitor"
	// exitOff is the exit code of an agent's status when the plug is off.
	exitOff = 2
	// mostMessage is how many bytes of an agent's output are kept.
	mostMessage = 1024
	// killWait is how long an agent may keep its output open after it was ended.
	killWait     = 2 * time.Second
	metadataTime = 20 * time.Second
)

// execute runs one action.
func execute(ctx context.Context, f flags) result {
	if err := clock(f.notAfter, os.Getenv(madeVariable), time.Now()); err != nil {
		return result{Action: f.action, Message: err.Error()}
	}
	if f.action == actionPlan {
		ctx, cancel := context.WithDeadline(ctx, f.notAfter)
		defer cancel()
		return plan(ctx, f)
	}
	m, secrets, err := load(f)
	r := result{Agent: m.Agent, Action: cmp.Or(f.action, m.Action)}
	fail := func(format string, args ...any) result {
		r.Message = mask(fmt.Sprintf(format, args...), m, secrets)
		return r
	}
	if err != nil {
		return fail("%v", err)
	}
	ctx, cancel := context.WithDeadline(ctx, f.notAfter)
	defer cancel()
	a := &agent{path: filepath.Join(f.agents, m.Agent), method: m, secrets: secrets, node: f.node}
	known, err := a.metadata(ctx)
	if err != nil {
		return fail("%v", err)
	}
	for _, p := range known.Check(m) {
		if !p.Warning {
			return fail("%s", p.Text)
		}
	}
	a.method.Options = slices.DeleteFunc(slices.Clone(m.Options), func(o fenceconfig.Option) bool { return !known.Knows(o.Key) })
	a.method.Secrets = slices.DeleteFunc(slices.Clone(m.Secrets), func(s fenceconfig.SecretRef) bool { return !known.Knows(s.Key) })
	switch r.Action {
	case actionMonitor:
		action := actionMonitor
		if !slices.Contains(known.Actions, action) {
			action = "status"
		}
		code, said, err := a.run(ctx, action)
		if r.OK = err == nil && (code == 0 || code == exitOff); !r.OK {
			return fail("%s", cmp.Or(said, errText(err), "the device does not answer"))
		}
	case actionCheck:
		said := ""
		if r.Status, said = a.status(ctx); r.Status != fenceconfig.Off {
			return fail("the plug is %s: %s", r.Status, cmp.Or(said, "the device says so"))
		}
		r.OK = true
	default:
		return a.do(ctx, r, fail)
	}
	return r
}

// do switches the plug and confirms its state.
func (a *agent) do(ctx context.Context, r result, fail func(string, ...any) result) result {
	code, said, err := a.run(ctx, a.method.Action)
	if err != nil || code != 0 {
		return fail("%s failed: %s", a.method.Action, cmp.Or(said, errText(err), fmt.Sprintf("exit code %d", code)))
	}
	if a.method.Action == fenceconfig.Off && a.method.Confirm {
		if r.Status, said = a.status(ctx); r.Status != fenceconfig.Off {
			return fail("off was accepted, but the plug is %s: %s", r.Status, cmp.Or(said, "the device says so"))
		}
	}
	if a.method.Storage.Reset {
		if err := a.barrier(ctx); err != nil {
			return fail("off was confirmed, but then: %v", err)
		}
		r.Barrier = true
	}
	r.OK = true
	return r
}

// agent is one fence agent with its options.
type agent struct {
	path, node string
	method     fenceconfig.Method
	secrets    map[string]string
	env        []string // in addition to its own
}

// status asks the device for the plug's status: on, off or unknown.
func (a *agent) status(ctx context.Context) (status, said string) {
	code, said, err := a.run(ctx, "status")
	switch {
	case err == nil && code == exitOff:
		return fenceconfig.Off, said
	case err == nil && code == 0:
		return fenceconfig.On, said
	default:
		return "unknown", cmp.Or(said, errText(err))
	}
}

// input returns the agent's input: one KEY=VALUE per line.
func (a *agent) input(action string) string {
	var b strings.Builder
	for _, o := range a.method.Options {
		fmt.Fprintf(&b, "%s=%s\n", o.Key, o.Value)
	}
	for _, s := range a.method.Secrets {
		fmt.Fprintf(&b, "%s=%s\n", s.Key, a.secrets[s.Key])
	}
	if a.node != "" {
		fmt.Fprintf(&b, "nodename=%s\n", a.node)
	}
	fmt.Fprintf(&b, "action=%s\n", action) // last, so that no option overrides it
	return b.String()
}

// run runs the agent. An agent that exceeds its time is an error, whatever the exit code.
func (a *agent) run(ctx context.Context, action string) (code int, said string, err error) {
	if err := a.takes(); err != nil {
		return 0, "", err
	}
	c := exec.CommandContext(ctx, a.path)
	c.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "PYTHONWARNINGS=ignore", home()}, a.env...)
	c.Stdin = strings.NewReader(a.input(action))
	var complaint bytes.Buffer
	c.Stderr = &limited{&complaint, 16 * mostMessage}
	ownGroup(c)
	c.WaitDelay = killWait
	err = c.Run()
	said = strings.TrimSpace(complaint.String())
	if ctx.Err() != nil {
		return 0, said, fmt.Errorf("%s: its time is up: %w", action, ctx.Err())
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exit.ExitCode(), said, nil
	}
	return 0, said, err
}

// takes returns the reason why an agent cannot be given its Secrets.
func (a *agent) takes() error {
	for _, value := range a.secrets {
		if strings.ContainsAny(value, "\n\r\x00") {
			return errors.New("a secret contains a line break: fence agents cannot take it")
		}
	}
	return nil
}

// limited drops what exceeds its limit.
type limited struct {
	to   *bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	l.to.Write(p[:n])
	return len(p), nil
}

// metadata asks the agent for its options and actions.
func (a *agent) metadata(ctx context.Context) (fenceconfig.Agent, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataTime)
	defer cancel()
	c := exec.CommandContext(ctx, a.path, "-o", "metadata")
	c.Stdin, c.WaitDelay = strings.NewReader(""), killWait
	ownGroup(c)
	text, err := c.Output()
	if err != nil {
		return fenceconfig.Agent{}, fmt.Errorf("ask %s for its metadata: %w", filepath.Base(a.path), err)
	}
	return parseMetadata(text)
}

func parseMetadata(text []byte) (fenceconfig.Agent, error) {
	var doc struct {
		Parameters []struct {
			Name     string `xml:"name,attr"`
			Required string `xml:"required,attr"`
			Getopt   struct {
				Mixed string `xml:"mixed,attr"`
			} `xml:"getopt"`
		} `xml:"parameters>parameter"`
		Actions []struct {
			Name string `xml:"name,attr"`
		} `xml:"actions>action"`
	}
	if err := xml.Unmarshal(text, &doc); err != nil {
		return fenceconfig.Agent{}, fmt.Errorf("read the agent's metadata: %w", err)
	}
	var out fenceconfig.Agent
	for _, p := range doc.Parameters {
		out.Parameters = append(out.Parameters, fenceconfig.Parameter{Name: p.Name, Getopt: cmp.Or(p.Getopt.Mixed, p.Name), Required: p.Required == "1"})
	}
	for _, a := range doc.Actions {
		out.Actions = append(out.Actions, a.Name)
	}
	return out, nil
}

// printMetadata prints the metadata of all agents in a directory.
func printMetadata(ctx context.Context, dir string, out, diag io.Writer) int {
	paths, err := filepath.Glob(filepath.Join(dir, "fence_*"))
	if err != nil || len(paths) == 0 {
		fmt.Fprintf(diag, "fencing-executor: there are no fence agents in %s\n", dir)
		return 1
	}
	agents := fenceconfig.Agents{}
	for _, path := range paths {
		a, err := (&agent{path: path}).metadata(ctx)
		if err != nil || len(a.Actions) == 0 {
			fmt.Fprintf(diag, "fencing-executor: %s is left out: it has no metadata that can be read\n", filepath.Base(path))
			continue
		}
		agents[filepath.Base(path)] = a
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", " ")
	if err := enc.Encode(agents); err != nil {
		fmt.Fprintf(diag, "fencing-executor: %v\n", err)
		return 1
	}
	return 0
}

// mask removes all secrets and control characters from a text for people, and shortens it.
func mask(text string, m fenceconfig.Method, secrets map[string]string) string {
	values := []string{}
	for _, v := range secrets {
		values = append(values, v)
	}
	for _, o := range m.Options {
		if fenceconfig.IsSecret(o.Key) {
			values = append(values, o.Value)
		}
	}
	// The longest comes first, because one may be part of another.
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	for _, v := range values {
		if v != "" {
			text = strings.ReplaceAll(text, v, "***")
		}
	}
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
	text = strings.Map(func(r rune) rune { // the text is shown on terminals
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
	if len(text) > mostMessage {
		text = "..." + strings.ToValidUTF8(text[len(text)-mostMessage:], "")
	}
	return text
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func trimNewline(s string) string { return strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r") }
