package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/history"
	"github.com/fencing-agent/fencing-agent/procfs"
)

func newHistoryCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history [NODE]",
		Short: "Show what this node's agent kept on disk, over resets",
		Long: `Read the file that the agent of this node writes, and show for each boot how it ended and what the agent decided.
The agent need not run.

With NODE, fencectl does so in the agent's pod on that node of a Kubernetes cluster, by kubectl exec.

Boots are numbered as by journalctl: 0 is the present one, -1 the one before. "without last words" means that the
agent wrote nothing before the end: power was lost, the kernel stopped, something else reset the node, or the disk did
not take the last record. Samples, the worst of 30 seconds, are left out but for the last ones of a boot.`,
		Example: `  fencectl history
  fencectl history --boot -1
  fencectl history --boot -1 --samples
  fencectl history -o json | jq -r '.[] | select(.end == "starved") | .boot'
  kubectl fence history n4 --boot -1`,
		Args: optional,
	}
	flags := cmd.Flags()
	file := flags.String("file", config.Default().HistoryFile(), "the file: members.cacheFile of the agent's configuration, with -history in place of .json")
	boot := flags.String("boot", "", "only this boot: 0, -1, -2, ..., or its nonce")
	samples := flags.Bool("samples", false, "show all samples")
	out := newPrinter(cmd)
	remote := newRemoteFlags(env, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			ask := []string{"history", "-o", out.format, fmt.Sprintf("--samples=%t", *samples), "--boot", *boot}
			if flags.Changed("file") {
				ask = append(ask, "--file", *file)
			}
			return remote.beside(cmd.Context(), args[0], ask...)
		}
		if remote.plugin && !exists(*file) && !flags.Changed("file") {
			return usagef("NODE is missing: no agent keeps a history on this machine")
		}
		boots, err := readHistory(*file, *boot)
		if err != nil {
			return err
		}
		if !*samples {
			for i := range boots {
				boots[i].Records = fewSamples(boots[i].Records)
			}
		}
		if out.format != formatTable {
			return out.print(env.stdout, boots, nil)
		}
		return writeText(env, historyText(env, &view.Page{Color: colorful(env), Width: width(env)}, boots))
	}
	return cmd
}

// pastBoot is a boot as it is printed.
type pastBoot struct {
	Number  int         `json:"number"`
	Boot    string      `json:"boot"`
	Present bool        `json:"present"`
	End     history.End `json:"end,omitempty"` // of a boot that is over
	Reason  string      `json:"reason,omitempty"`
	Text    string      `json:"text,omitempty"`
	First   time.Time   `json:"first"`
	Last    time.Time   `json:"last"`
	Records []pastEvent `json:"records"`
}

// pastEvent is a record as it is printed.
type pastEvent struct {
	Time   time.Time `json:"time"`
	UpS    float64   `json:"upSeconds"`
	Kind   string    `json:"kind"`
	Action string    `json:"action,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Quorum *bool     `json:"quorum,omitempty"`
	Nodes  []string  `json:"nodes,omitempty"`
	SlackS float64   `json:"slackSeconds,omitempty"`
	WriteS float64   `json:"lunWriteSeconds,omitempty"`
	ReadS  float64   `json:"lunReadSeconds,omitempty"`
	Text   string    `json:"text"`

	record *history.Record
}

// readHistory reads the file, and returns the requested boots.
func readHistory(path, which string) ([]pastBoot, error) {
	text, err := readRegular(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: if the agent's members.cacheFile has another path, say so with --file; if experimental.historyMegabytes is 0, there is no history", view.Clean(path))
	}
	if err != nil {
		return nil, err
	}
	f, err := history.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; give the file beside members.cacheFile that ends in -history, or use the fencectl of the agent's version", view.Clean(path), err)
	}
	boots := history.Boots(f.Records)
	present := presentBoot()
	out := make([]pastBoot, 0, len(boots))
	number := -len(boots)
	if n := len(boots); n > 0 && boots[n-1].Nonce == present {
		number++
	}
	for i := range boots {
		b := &boots[i]
		p := pastBoot{
			Number: number + i, Boot: fmt.Sprintf("%016x", b.Nonce), Present: b.Nonce == present,
			First: b.Records[0].Wall, Last: b.Records[len(b.Records)-1].Wall,
		}
		if !p.Present {
			e := b.Ending()
			p.End, p.Reason, p.Text = e.End, e.Reason, e.Text
		}
		for k := range b.Records {
			p.Records = append(p.Records, event(&b.Records[k]))
		}
		if which == "" || which == strconv.Itoa(p.Number) || which == p.Boot {
			out = append(out, p)
		}
	}
	if len(out) == 0 && which != "" {
		return nil, fmt.Errorf("there is no boot %s in %s: it has %s", view.Clean(which), view.Clean(path), numbers(len(boots), number))
	}
	return out, nil
}

func numbers(n, from int) string {
	switch n {
	case 0:
		return "none yet"
	case 1:
		return strconv.Itoa(from)
	}
	return fmt.Sprintf("%d to %d", from, from+n-1)
}

// readRegular reads a file only if it is not a pipe or a device: the command must not hang.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", view.Clean(path))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, history.Size(history.MaxSlots)))
}

// presentBoot is the nonce of the kernel's boot; 0 if it cannot be read.
func presentBoot() uint64 {
	nonce, _ := procfs.BootNonce("/proc")
	return nonce
}

func event(r *history.Record) pastEvent {
	e := pastEvent{
		Time: r.Wall, UpS: r.Up.Seconds(), Kind: r.Kind.String(), Action: r.Action, Reason: r.Reason, Nodes: r.Nodes,
		SlackS: r.Slack.Seconds(), WriteS: r.Write.Seconds(), ReadS: r.Read.Seconds(), Text: r.Line(), record: r,
	}
	if r.Kind == history.Decision {
		e.Quorum = &r.Quorum
	}
	return e
}

// fewSamples removes all samples except the last three.
func fewSamples(events []pastEvent) []pastEvent {
	const last = 3
	left := 0
	out := make([]pastEvent, 0, len(events))
	for _, e := range slices.Backward(events) {
		if e.record.Kind == history.Sample {
			if left++; left > last {
				continue
			}
		}
		out = append(out, e)
	}
	slices.Reverse(out)
	return out
}

// historyText writes the boots to an empty page.
func historyText(env *environment, p *view.Page, boots []pastBoot) []byte {
	if len(boots) == 0 {
		p.Text("", 0, view.Say("nothing is on record yet", view.Plain))
	}
	for i, b := range boots {
		if i > 0 {
			p.Gap()
		}
		how := []view.Span{view.Say("goes on", view.Plain)}
		if !b.Present {
			level := view.Warn
			if b.End == history.EndStopped || b.End == history.EndDisarmed {
				level = view.Plain
			}
			how = []view.Span{view.Say("ended "+view.EndWords[b.End]+":", level), view.Say(b.Text, view.Plain)}
		}
		p.Text(fmt.Sprintf("boot %d (%s) ", b.Number, b.Boot), 4, how...)
		for _, e := range b.Records {
			at := "  " + e.Time.In(env.zone()).Format(timeLayout) + "  "
			p.Text(at, len(at), view.Say(e.Text, view.EventStyle(e.record)))
		}
	}
	return p.Bytes()
}
