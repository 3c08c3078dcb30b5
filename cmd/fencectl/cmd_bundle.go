package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

const (
	// maxBundleFile bounds one file of a bundle.
	maxBundleFile = 8 << 20
	// bundlePatience is for how long one program is waited for.
	bundlePatience = 20 * time.Second
	// remotePatience is for how long each answer of kubectl is waited for: a log of some megabytes goes to a node that may be in
	// trouble, which makes an archive of it.
	remotePatience = 90 * time.Second
	// standardStream as a file is standard input, or standard output.
	standardStream = "-"
)

// bundle is one archive for a ticket.
type bundle struct {
	env     *environment
	keys    []string // whose text appears nowhere
	files   []bundleFile
	program func(ctx context.Context, name string, args ...string) ([]byte, error)
	log     string // a file in place of the journal
}

type bundleFile struct {
	name string
	text []byte
}

func newBundleCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bundle FILE [NODE]",
		Short: "Collect what a ticket needs in one archive, without secrets",
		Long: `Write FILE, a tar archive with gzip: the agent's status, its configuration with all defaults, the history over resets,
what doctor finds, the log of the unit fencing-agent of the last day, and kernel and system. What cannot be had is named
in missing.txt. FILE may be - for standard output.

With NODE, the agent's pod on that node of a Kubernetes cluster collects it, by kubectl exec, with the pod's log.

Keys are not in it: neither the key file nor a kubeconfig is read into it, and whatever looks like a key is blotted out,
the group's own keys wherever they stand. Names and addresses of nodes are in it. A FILE that exists is left as it is.`,
		Example: "  fencectl bundle /tmp/n1.tar.gz\n  kubectl fence bundle n1.tar.gz n1",
		Args: func(cmd *cobra.Command, args []string) error {
			return operands([]string{"FILE", "NODE"}[:max(1, min(len(args), 2))]...)(cmd, args)
		},
	}
	agent := newAgentFlags(cmd)
	f := newMachineFlags(cmd)
	cmd.Flags().StringVar(&f.config, "config", configHere(), "`file` of the agent's configuration")
	log := cmd.Flags().String("log", "", "`file` with the agent's log, - for standard input (default: that of the unit, by journalctl)")
	remote := newRemoteFlags(env, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return remote.bundle(cmd.Context(), args[0], args[1])
		}
		if remote.plugin && agent.socket == "" && !exists(agent.path(env)) && !exists(f.config) {
			return usagef("NODE is missing: there is no agent on this machine")
		}
		b := &bundle{env: env, program: runProgram, log: *log}
		b.collect(cmd.Context(), agent, f)
		if args[0] == standardStream {
			return b.write(env.stdout)
		}
		if err := newFile(args[0], b.write); err != nil {
			return err
		}
		return writeText(env, fmt.Appendf(nil, "%s: %d files\n", args[0], len(b.files)))
	}
	return cmd
}

// newFile makes a file that its owner alone may read, whole or not at all.
func newFile(path string, fill func(io.Writer) error) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(fill(out), out.Close()); err != nil {
		_ = os.Remove(path) // the error that counts is the one returned
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// bundle has the agent's pod collect the archive. It is handed its own log, so that all goes through blot beside the group's keys.
func (r *remoteFlags) bundle(ctx context.Context, file, node string) error {
	pods, err := agentPods(ctx, r.kube.run, r.namespace, node)
	if err != nil {
		return err
	}
	p, kube := &pods[0], *r.kube
	kube.patience = remotePatience
	logs := func(more ...string) []byte {
		text, err := kube.run(ctx, append([]string{"logs", "--namespace", p.namespace, p.name, "--since", "24h", "--tail", "50000"}, more...)...)
		if err != nil {
			return fmt.Appendf(nil, "%s: %v\n", strings.Join(append([]string{"kubectl logs"}, more...), " "), err)
		}
		return text
	}
	args := p.inPod("bundle", standardStream, "--config", p.config, "--log", standardStream)
	text, err := kube.runWith(ctx, string(append(logs("--previous"), logs()...)), slices.Insert(args, 1, "-i")...)
	if err == nil && !bytes.HasPrefix(text, []byte("\x1f\x8b")) {
		err = fmt.Errorf("bundle of %s: its answer is no archive: is the agent older than this fencectl?", node)
	}
	if err != nil {
		return err
	}
	write := func(w io.Writer) error { _, err := w.Write(text); return err }
	if file == standardStream {
		return write(r.env.stdout)
	}
	if err := newFile(file, write); err != nil {
		return err
	}
	return writeText(r.env, fmt.Appendf(nil, "%s: of %s, %d bytes\n", file, node, len(text)))
}

func runProgram(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, bundlePatience)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.WaitDelay = time.Second
	return c.Output()
}

func (b *bundle) add(name string, text []byte, err error) {
	if err != nil {
		b.files[0].text = fmt.Appendf(b.files[0].text, "%s: %v\n", name, err)
		return
	}
	b.files = append(b.files, bundleFile{name, text})
}

// collect gets all files. What it cannot get it notes in the first one.
func (b *bundle) collect(ctx context.Context, agent *agentFlags, f *machineFlags) {
	b.files = []bundleFile{{name: "missing.txt"}}
	st, err := getStatus(ctx, b.env, agent)
	text := []byte(nil)
	if err == nil {
		text, err = protojson.MarshalOptions{Multiline: true}.Marshal(st)
	}
	b.add("status.json", text, err)
	_, r, err := readConfig(ctx, strings.NewReader(""), f.config, b.env.getenv)
	if err == nil {
		b.keys = keysOf(filepath.Join(f.root, r.Config.Gossip.KeyFile))
		text, err = r.Config.YAML()
	}
	b.add("config.yaml", text, err)
	text, err = b.history(f, r.Config)
	b.add("history.txt", text, err)
	m, _, _ := f.machine(ctx, b.env, false) // without a name it does not fail
	text, err = json.MarshalIndent(m.Look(), "", "  ")
	b.add("doctor.json", text, err)
	text, err = json.MarshalIndent(m.Watchdogs(), "", "  ")
	b.add("watchdogs.json", text, err)
	for name, path := range map[string]string{"kernel.txt": "/proc/version", "system.txt": "/etc/os-release", "networks.txt": "/proc/net/dev"} {
		text, err = os.ReadFile(filepath.Join(f.root, path))
		b.add(name, text, err)
	}
	switch b.log {
	case "":
		text, err = b.program(ctx, "journalctl", "-u", "fencing-agent", "--since", "-1 day", "--no-pager", "-o", "short-iso-precise")
	case standardStream:
		text, err = io.ReadAll(b.env.stdin)
	default:
		text, err = os.ReadFile(b.log)
	}
	b.add("agent.log", text, err)
	text, err = b.program(ctx, "dmesg", "--time-format", "iso")
	b.add("kernel.log", text, err)
}

// history is what the agent kept on disk, with all samples.
func (b *bundle) history(f *machineFlags, c *config.Config) ([]byte, error) {
	if c == nil {
		c = config.Default()
	}
	path := filepath.Join(f.root, c.HistoryFile())
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	boots, err := readHistory(path, "")
	if err != nil {
		return nil, err
	}
	return historyText(b.env, &view.Page{Width: 120}, boots), nil
}

// keysOf reads the words of a key file, to be blotted out.
func keysOf(path string) (keys []string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil // it cannot get into the bundle either
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#") // a comment
		for _, word := range strings.Fields(line) {
			if len(word) >= 16 {
				keys = append(keys, word)
			}
		}
	}
	return keys
}

// keyLike is a base64 key of 16 or 32 bytes, whatever stands before it, and the data of a private key or a token. One of 24 bytes
// looks like a digest in hexadecimal digits, so it is known by the key file alone.
var keyLike = regexp.MustCompile(`[A-Za-z0-9+/]{43}=|[A-Za-z0-9+/]{22}==|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`)

// blot takes everything out that is a key or looks like one.
//
// Invariant: each file of a bundle goes through it.
func (b *bundle) blot(text []byte) []byte {
	for _, key := range b.keys {
		text = bytes.ReplaceAll(text, []byte(key), []byte("[key]"))
	}
	return keyLike.ReplaceAll(text, []byte("[key]"))
}

// content is what of a file goes into the archive: its end. It is cut last: half a key is not known for one.
func (b *bundle) content(f *bundleFile) []byte {
	text := b.blot(f.text)
	return text[max(0, len(text)-maxBundleFile):]
}

func (b *bundle) write(to io.Writer) error {
	z := gzip.NewWriter(to)
	t := tar.NewWriter(z)
	for _, f := range b.files {
		text := b.content(&f)
		if err := t.WriteHeader(&tar.Header{Name: "fencing-agent/" + f.name, Mode: 0o600, Size: int64(len(text)), ModTime: b.env.clock()}); err != nil {
			return err
		}
		if _, err := t.Write(text); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}
