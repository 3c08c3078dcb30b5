package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/api/client"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/cmd/fencectl/hookdir"
)

func newHooksCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hooks DIR",
		Short: "Run the programs of a directory when a node is proven dead",
		Long: `Follow this node's agent, and run all programs in DIR, in the order of their names, whenever a death is proven:

  PROGRAM fenced NODE BOOT PROOF       what that boot of NODE had may be taken over
  PROGRAM withdrawn NODE BOOT PROOF    it was called dead and is not: stop what was begun, and look

The rules are those of docs/consumers.md: nothing runs for LEFT, nor while this node has no quorum. A death is told
once, and again after a restart of this command; a program has to bear that. With --state a withdrawal that comes
while this command does not run is told when it runs again. A withdrawal ends the programs that run for that death.
What happens to one node runs in order, one program at a time, and nodes do not wait for each other. A program that
fails is told on stderr, and the next one runs.

A program is an executable file whose name has letters, digits, - and _, and may end in .sh, .py, .pl or .rb. Nobody
but root, or who runs this command, may be able to change DIR or the program; others are not run.

The command runs until it is stopped (SIGTERM, Ctrl-C). It waits for an agent that is not there.`,
		Example: `  fencectl hooks /etc/fencing-agent/hooks.d
  fencectl hooks /etc/fencing-agent/hooks.d --limit 2m`,
		Args: operands("DIR"),
	}
	agent := newSocketFlag(cmd)
	limit := cmd.Flags().Duration("limit", 30*time.Second, "how long one program may take")
	state := cmd.Flags().String("state", "", "`file` that keeps what was told over a restart")
	_ = cmd.MarkFlagFilename("state") // fails for unknown flags only
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *limit <= 0 {
			return usagef("invalid argument %v for \"--limit\" flag: more than 0 is allowed", *limit)
		}
		dir, err := filepath.Abs(args[0])
		if err != nil {
			return err
		}
		socket, err := filepath.Abs(agent.path(env))
		if err != nil {
			return fmt.Errorf("agent socket: %w", err)
		}
		stderr := *env
		stderr.stderr = newUnstuck(env.stderr) // who does not read this must not keep a program from being run
		r, err := hookdir.Open(hookdir.Config{Dir: dir, Timeout: *limit, Say: func(line string) { stderr.warn(view.Clean(line)) }})
		if err != nil {
			return err
		}
		defer r.Close()
		stderr.warn("running the programs in " + view.Clean(dir) + " for each death that the agent at " + view.Clean(socket) + " proves")
		tell, told := r.Tell, []client.NodeDeath(nil)
		if *state != "" {
			tell, told = remembering(*state, &stderr, r)
		}
		return client.FollowDeaths(cmd.Context(), client.Config{Socket: socket, Told: told}, func(news client.DeathNews) {
			for _, d := range news.Withdrawn {
				tell(deathFor(hookdir.Withdrawn, &d))
			}
			for _, d := range news.Proven {
				tell(deathFor(hookdir.Fenced, &d.NodeDeath))
			}
		})
	}
	return cmd
}

// remembering notes in a file what is told. A file that cannot be used is told, and keeps nobody from running programs.
func remembering(path string, env *environment, r *hookdir.Runner) (tell func(hookdir.Death), told []client.NodeDeath) {
	m, err := hookdir.Remember(path)
	if err != nil {
		env.warn(view.Clean(err.Error()))
	}
	for _, d := range m.Deaths() {
		proof := fencingv1.Proof_value["PROOF_"+strings.ToUpper(d.Proof)]
		told = append(told, client.NodeDeath{Node: d.Node, Boot: d.Boot, Proof: fencingv1.Proof(proof)})
	}
	return func(d hookdir.Death) {
		if err := m.Note(d); err != nil {
			env.warn("cannot store which deaths were told: " + view.Clean(err.Error()))
		}
		r.Tell(d)
	}, told
}

func deathFor(e hookdir.Event, d *client.NodeDeath) hookdir.Death {
	return hookdir.Death{Event: e, Node: d.Node, Boot: d.Boot, Proof: strings.ToLower(strings.TrimPrefix(d.Proof.String(), "PROOF_"))}
}
