package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// The pauses between attempts double from the first to the longest. They are short because the socket is local, and
// because changes during a pause are shown late.
const (
	firstPause   = 500 * time.Millisecond
	longestPause = 10 * time.Second
)

func newWatchCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Follow what this node's agent publishes",
		Long: `Follow the agent of this node over its socket until Ctrl-C.

By default, print the nodes that are available now, then each change as consumers of the agent get it:
LEFT and JOIN with the addresses. With --status, print one line whenever the verdict changes; on a
terminal, keep the whole status on the screen instead.

When the agent stops, is replaced or ends the stream because its reader was too slow, watch says so on
stderr, connects again and prints what has changed meanwhile.

-o json prints one object a line: the set of nodes (fencing.v1.AllNodes) whenever it connects and each
fencing.v1.Event; with --status, each fencing.v1.Status.`,
		Example: `  fencectl watch
  fencectl watch --status
  fencectl watch -o json | jq -c 'select(.type == "LEFT") | .node.name'`,
		Args: operands(),
	}
	w := &watcher{env: env, agent: newAgentFlags(cmd), pause: boottime.Wait}
	flags := cmd.Flags()
	flags.Bool("events", false, "follow the available nodes (the default)")
	verdicts := flags.Bool("status", false, "follow the verdict and everything it depends on")
	shown := newShownFlags(cmd)
	cmd.MarkFlagsMutuallyExclusive("events", "status")
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *verdicts {
			return w.run(cmd.Context(), newStatusLog(env, out.format, shown).follow)
		}
		return w.run(cmd.Context(), newEventLog(env, out.format).follow)
	}
	return cmd
}

// watcher follows an agent, even if the agent is stopped and started.
type watcher struct {
	env   *environment
	agent *agentFlags
	pause func(context.Context, time.Duration)
}

// run calls follow with a new connection each time follow returns, until ctx ends or another attempt is pointless. If
// the agent cannot be reached, that is an error only at first: later the agent is being replaced. follow calls
// connected when it has an answer.
func (w *watcher) run(ctx context.Context, follow func(_ context.Context, _ *agentConn, connected func()) error) error {
	reached, told := false, ""
	backoff := boottime.Backoff{First: firstPause, Most: longestPause}
	for {
		conn, err := w.agent.dial(w.env)
		if err != nil {
			return err
		}
		err = follow(ctx, conn, func() {
			if told != "" {
				w.env.warn("connected again")
			}
			reached, told = true, ""
			backoff.Reset()
		})
		_ = conn.Close() // every call on it has ended
		if ctx.Err() != nil {
			return nil
		}
		failed := new(agentError)
		if !errors.As(err, &failed) || !failed.passing || (failed.unreachable && !reached) {
			return err
		}
		if why := err.Error(); why != told {
			told = why
			w.env.warn(why + "; trying again")
		}
		if w.pause(ctx, backoff.Next()); ctx.Err() != nil {
			return nil
		}
	}
}
