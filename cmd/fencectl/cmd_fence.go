package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/view"
)

// fenceOrder is an order to reset one node.
type fenceOrder struct {
	deathWait
	by, reason string
}

func newFenceCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fence NODE",
		Short: "Have a node that can be reached reset itself, so that it is FENCED in seconds",
		Long: `Have NODE condemn its present boot: its agent stops feeding the watchdog for good, makes the watchdog's timeout
short, and says so. The watchdog resets the machine, and the others call it FENCED. Nothing is shut down: pods on NODE
lose what they had in memory.

NODE obeys by itself, and only when a majority of the group has told it that it can be spared. The command says why
not, if it does not: NODE is under maintenance or has no armed watchdog; the others would have no majority; another
node is being ended, or was less than 30 seconds ago; NODE cannot be reached. For a node that cannot be reached, power
it off and use confirm-dead. There is no flag that overrides any of this.

Without --boot it is the latest boot that this agent knows. Run it as root on a node that counts a majority; it cannot
be NODE itself. Your name and --reason stand in this agent's log and history.

Exit codes: 0 NODE has condemned its boot, with --wait: is FENCED; 1 it was refused, or the agent could not be asked;
2 bad usage; 3 with --wait: not FENCED within --timeout.`,
		Example: `  fencectl fence n4 --reason "kernel hangs in the HBA driver"
  fencectl fence n4 --wait && do-failover
  fencectl fence n4 --boot 024bc581b3a34be3 --wait --timeout 1m`,
		Args: operands("NODE"),
	}
	o := &fenceOrder{deathWait: deathWait{env: env, agent: newSocketFlag(cmd)}}
	o.agent.timeout = confirmPatience
	flags := cmd.Flags()
	flags.Var((*bootFlag)(&o.boot), "boot", "end this `boot` and no other: a boot nonce, or the bootID of the Node in Kubernetes")
	flags.StringVar(&o.reason, "reason", "", "why, in `words`")
	flags.StringVar(&o.by, "by", "", "`name` of who says so (default: $SUDO_USER, else your user name)")
	wait := flags.Bool("wait", false, "wait until the node is FENCED")
	flags.DurationVar(&o.limit, "timeout", 3*time.Minute, "how long to wait with --wait")
	cmd.ValidArgsFunction = o.complete
	_ = cmd.RegisterFlagCompletionFunc("boot", cobra.NoFileCompletions) // fails for unknown flags only
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.node = args[0]; o.limit <= 0 {
			return usagef("invalid argument %v for \"--timeout\" flag: it must be more than 0", o.limit)
		}
		if err := o.give(cmd.Context()); err != nil {
			return err
		}
		if !*wait {
			return out.print(env.stdout, ordered{o.node, o.boot}, func(t *table) {
				t.row(fmt.Sprintf("%s: boot %s has condemned itself, and is reset; it is dead when \"%s wait --fenced %s --boot %s\" says so", view.Clean(o.node), o.boot, env.command(), view.Clean(o.node), o.boot))
			})
		}
		return o.tell(cmd.Context(), out)
	}
	return cmd
}

// ordered is the output of -o json without --wait.
type ordered struct {
	Node string `json:"node"`
	Boot string `json:"boot"`
}

// give asks the agent to give the order, and waits until the node has condemned itself.
func (o *fenceOrder) give(ctx context.Context) error {
	st, err := getStatus(ctx, o.env, o.agent)
	if err != nil {
		return err
	}
	n, err := memberOf(st, o.node)
	if err != nil {
		return err
	}
	if o.boot = cmp.Or(o.boot, bootOf(n)); o.boot == "" {
		return fmt.Errorf("%s: this agent has never seen that node, and knows no boot of it: power it off, and use confirm-dead on a node whose agent has seen it", view.Clean(o.node))
	}
	return o.agent.command(ctx, o.env, "not fenced: ", func(ctx context.Context, c fencingv1.FencingControlClient) error {
		_, err := c.Fence(ctx, &fencingv1.FenceRequest{Node: o.node, BootNonce: o.boot, By: o.env.by(o.by), Reason: o.reason})
		return err
	})
}
