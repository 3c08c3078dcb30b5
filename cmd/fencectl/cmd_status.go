package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/api/words"
)

func newStatusCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [NODE]",
		Short: "Show what a node's agent sees, decides and why",
		Long: `Ask the agent of this node over its socket and show what a person needs first: the verdict and its reason, what
it means for this node (after >>>), which nodes are missing and for how long, and what else is not in order.

With NODE, ask the agent of that node of a Kubernetes cluster, by kubectl exec in its pod, where fencectl prints this.
"kubectl fence status --all", without NODE, asks all agents, and has a line for each; of two nodes of which one sees the
other alone it says so.

With -v, show every node on every network, the LUN, the watchdog and the time budget. Of more than 20 nodes, those in
order are only counted; --all shows them, too. On each network a node is ok, STALE (heard of, but its last answer is too
old) or LOST, with the time since its last answer, or NEVER answered. In brackets is what a node said before it ceased to
answer.

-o json prints fencing.v1.Status as docs/fencectl.md describes it. The exit code is 0 when the agent
answered, whatever it says; with --check only if the node also has quorum and the permission to feed. Beside
--check, --help ends with 2.`,
		Example: `  fencectl status
  fencectl status -v
  fencectl status --all --socket /var/run/fencing-agent/api.sock
  fencectl status --check > /dev/null || echo "this node is in trouble"
  fencectl status -o json | jq -r .verdict.reason
  fencectl status n4 --context prod`,
		Args: optional,
	}
	agent := newAgentFlags(cmd)
	shown := newShownFlags(cmd)
	check := cmd.Flags().Bool("check", false, "exit with 1 unless this node has quorum and the permission to feed")
	out := newPrinter(cmd)
	remote := newRemoteFlags(env, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0 && agent.socket != "":
			return usagef("NODE is asked by kubectl, and --socket is a path of this machine: give only one of them")
		case len(args) > 0:
			return remote.status(cmd.Context(), args[0], shown, *check, out)
		case shown.all && remote.plugin && agent.socket == "":
			return remote.all(cmd.Context(), *check, out)
		case remote.plugin && agent.socket == "" && !exists(agent.path(env)):
			return usagef("NODE or --all is missing: there is no agent on this machine")
		}
		st, err := getStatus(cmd.Context(), env, agent)
		if err != nil {
			return err
		}
		if err := printStatus(env, out, st, shown); err != nil {
			return err
		}
		if *check {
			return checkStatus(st, env.clock())
		}
		return nil
	}
	return cmd
}

// exists reports whether a file may be there.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// shownFlags are the flags for the amount of output.
type shownFlags struct{ verbose, all bool }

func newShownFlags(cmd *cobra.Command) *shownFlags {
	f := new(shownFlags)
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "show every network, the LUN, the watchdog and the time budget, and the nodes one by one")
	cmd.Flags().BoolVar(&f.all, "all", false, "show every node, however many there are")
	return f
}

// width is the terminal's width; $COLUMNS takes precedence. 0: unknown.
func width(env *environment) int {
	const narrow = 40
	if n, err := strconv.Atoi(env.getenv("COLUMNS")); err == nil && n > 0 {
		return max(narrow, n)
	}
	if size := terminalSize(env); size != nil {
		n, _ := size()
		return n
	}
	return 0
}

func getStatus(ctx context.Context, env *environment, flags *agentFlags) (*fencingv1.Status, error) {
	conn, err := flags.dial(env)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, _, cancel := conn.impatient(ctx)
	defer cancel()
	st, err := fencingv1.NewFencingStatusClient(conn).GetStatus(ctx, &emptypb.Empty{})
	return st, conn.explain(ctx, err)
}

func printStatus(env *environment, out *printer, st *fencingv1.Status, shown *shownFlags) error {
	if out.format != formatTable {
		data, err := marshal(st)
		if err != nil {
			return err
		}
		return out.print(env.stdout, data, nil)
	}
	v := view.Text{Now: env.clock(), Zone: env.zone(), Color: colorful(env), Width: width(env), All: shown.all, Verbose: shown.verbose}
	if _, err := env.stdout.Write(v.Render(st)); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	return nil
}

// marshal is the JSON of a message on one line. It includes zero values of fields without presence, so that a script
// finds false and 0. It leaves out absent messages.
func marshal(m proto.Message) (json.RawMessage, error) {
	data, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("print as JSON: %w", err)
	}
	return data, nil
}

// checkStatus returns an error unless the node is fed and belongs to a part of the group that may live.
func checkStatus(st *fencingv1.Status, now time.Time) error {
	v := st.GetVerdict()
	var why error
	if age, old := view.Stale(st, now); old {
		why = fmt.Errorf("the agent stands still, its status is %s old", view.Brief(age))
	} else if p := v.GetPermission(); p != fencingv1.Permission_PERMISSION_FEED && p != fencingv1.Permission_PERMISSION_HOLD {
		why = errors.New("no permission to feed: " + words.Reason(v))
	} else if !v.GetQuorum() {
		why = errors.New("no quorum: " + words.Reason(v))
	} else {
		return nil
	}
	return fmt.Errorf("check of %s: %w", view.Clean(st.GetSelf().GetName()), why)
}
