package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/view"
)

// maintenancePoll is the time between two checks whether the watchdog is disarmed.
const maintenancePoll = 200 * time.Millisecond

// maintenanceWish is one call of fencectl maintenance.
type maintenanceWish struct {
	env    *environment
	agent  *agentFlags
	on     bool
	length time.Duration
	by     string
	reason string
	wait   bool
	limit  time.Duration
}

func newMaintenanceCommand(env *environment) *cobra.Command {
	return newGroup("maintenance COMMAND", "Disarm the watchdog of this node for a while", `maintenance on disarms this node's watchdog until a time that you name, maintenance off ends that now.

While it lasts nothing resets this node, and its peers never take over from it. It is the same switch as
watchdog.disableFile, with an end: status shows until when, by whom and why. It outlives a restart of the agent and
ends with the boot: a node that was reset is guarded again. An annotation of the Node that asks for the same stands on
its own, and off does not end that.`,
		newMaintenanceOnCommand(env),
		newMaintenanceOffCommand(env),
	)
}

func newMaintenanceOnCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "on --for DURATION --reason TEXT",
		Short: "Begin a maintenance, or give it another end",
		Long: `Disarm this node's watchdog until DURATION from now; what runs already gets the new end and reason. With --wait the
command ends when the watchdog is disarmed: the node asks its peers first, so that nobody takes it for dead, and a node
that has lost them stays armed.

Exit codes: 0 done, with --wait: disarmed; 1 it failed; 2 bad usage; 3 with --wait: not disarmed within --timeout. The
maintenance is on then all the same.`,
		Example: "  fencectl maintenance on --for 2h --reason \"new HBA firmware\" --wait",
		Args:    operands(),
	}
	m := newMaintenanceFlags(cmd, env)
	m.on = true
	cmd.Flags().DurationVar(&m.length, "for", 0, "how long, at most 168h; needed")
	cmd.Flags().StringVar(&m.reason, "reason", "", "why, in `words`; needed")
	return cmd
}

func newMaintenanceOffCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "off",
		Short: "End the maintenance now",
		Long: `Remove watchdog.disableFile, also one that was made by hand: the watchdog is armed again as soon as a majority knows of
it. With --wait the command ends when it is. With watchdog.disableFirst a file that says "off" stays, and the command
fails: there is no maintenance by it, and without it an annotation of the Node may begin one.

Exit codes: 0 done, with --wait: armed; 1 it failed; 2 bad usage; 3 with --wait: not armed within --timeout, for
example since an annotation asks for maintenance, too.`,
		Example: "  fencectl maintenance off --wait",
		Args:    operands(),
	}
	newMaintenanceFlags(cmd, env)
	return cmd
}

func newMaintenanceFlags(cmd *cobra.Command, env *environment) *maintenanceWish {
	m := &maintenanceWish{env: env, agent: newSocketFlag(cmd)}
	cmd.Flags().StringVar(&m.by, "by", "", "`name` of who says so (default: $SUDO_USER, else your user name)")
	cmd.Flags().BoolVar(&m.wait, "wait", false, "wait until the watchdog has followed")
	cmd.Flags().DurationVar(&m.limit, "timeout", time.Minute, "how long to wait with --wait")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case m.on && m.length <= 0:
			return usagef("--for must be more than 0: name a duration, such as --for 2h")
		case m.on && m.reason == "":
			return usagef("--reason is missing: name a reason")
		case m.limit <= 0:
			return usagef("invalid argument %v for \"--timeout\" flag: it must be more than 0", m.limit)
		}
		return m.set(cmd.Context())
	}
	return m
}

func (m *maintenanceWish) set(ctx context.Context) error {
	req := &fencingv1.SetMaintenanceRequest{By: m.env.by(m.by), Reason: m.reason}
	if m.on {
		req.Duration = durationpb.New(m.length)
	}
	var answer *fencingv1.SetMaintenanceResponse
	if err := m.agent.command(ctx, m.env, "", func(ctx context.Context, c fencingv1.FencingControlClient) (err error) {
		answer, err = c.SetMaintenance(ctx, req)
		return err
	}); err != nil {
		return err
	}
	if !m.on {
		return m.done(ctx, "", "maintenance is off: the watchdog is armed again as soon as a majority knows of it\n")
	}
	ends := answer.GetEnds().AsTime()
	shown := ends.In(m.env.zone()).Format(time.DateTime)
	text := fmt.Sprintf("maintenance until %s: nothing resets this node from when its watchdog is disarmed, for which --wait waits\n", shown)
	if m.wait {
		text = fmt.Sprintf("maintenance until %s: the watchdog is disarmed, and nothing resets this node until then\n", shown)
	}
	return m.done(ctx, "maintenance until "+ends.UTC().Format(time.RFC3339), text)
}

// done prints the result; with --wait, it first waits for the watchdog. The text by distinguishes this maintenance from
// an earlier one, which has another end.
func (m *maintenanceWish) done(ctx context.Context, by, text string) error {
	if m.wait {
		if err := m.await(ctx, by); err != nil {
			return err
		}
	}
	return writeText(m.env, []byte(text))
}

// await waits until the watchdog is as it should be.
func (m *maintenanceWish) await(ctx context.Context, by string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, m.limit, errWaited)
	defer cancel()
	tick := time.NewTicker(maintenancePoll)
	defer tick.Stop()
	last := "the agent has not sent a status yet"
	for {
		st, err := getStatus(ctx, m.env, m.agent)
		switch {
		case err != nil && ctx.Err() == nil:
			last = err.Error()
		case err == nil && m.followed(st, by):
			return nil
		case err == nil:
			last = fmt.Sprintf("%s: %s", view.Clean(st.GetSelf().GetName()), view.Permission(st).Text)
			for _, by := range st.GetVerdict().GetDisarmedBy() {
				last += ", " + view.Clean(by)
			}
		}
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errWaited) {
				return timeoutError{fmt.Errorf("the watchdog has not changed within %v: %s", m.limit, last)}
			}
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// followed reports whether the watchdog is disarmed by this maintenance or, after its end, armed.
func (m *maintenanceWish) followed(st *fencingv1.Status, by string) bool {
	armed := st.GetWatchdog().GetArmed()
	disarmed := st.GetVerdict().GetReason() == fencingv1.Reason_REASON_MAINTENANCE
	if m.on {
		return disarmed && !armed && slices.ContainsFunc(st.GetVerdict().GetDisarmedBy(), func(why string) bool { return strings.Contains(why, by) })
	}
	return armed && !disarmed
}
