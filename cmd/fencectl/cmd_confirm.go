package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/view"
)

// confirmPatience is how long an agent may take to check a death against the reports of all members.
const confirmPatience = 30 * time.Second

// proofsToTell maps the flag's values to the proofs that come from outside.
var proofsToTell = map[string]fencingv1.Proof{
	"operator": fencingv1.Proof_PROOF_OPERATOR, "power": fencingv1.Proof_PROOF_POWER, "kdump": fencingv1.Proof_PROOF_KDUMP,
}

// deathTold is one reported death.
type deathTold struct {
	deathWait
	proof, by, reference, reason string
}

func newConfirmDeadCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "confirm-dead NODE",
		Short: "Tell that a node is off, so that others may take over what it had",
		Long: `Tell this node's agent that NODE is dead, because you have switched it off and have looked that it is.
The agents then call it FENCED without waiting for a proof of their own, and others take over its volumes and pods.

    A node that is called dead and runs destroys data. Switch it off, at the power supply or by its
    management board, and look that it is off. Not to answer is not to be off.

Without --boot nothing is told: the command shows the latest boot that the agent knows of, and what to type. A boot
has to be named, so that what you saw cannot be taken for the next boot of the machine.

The agent refuses what it can see to be wrong: a node that it or a member sees or has heard, that writes to the LUN, a
boot that is not the latest one, its own node; and all of it while its node has no quorum. It asks every member, which
takes from a second up to 15. Then it hands the death on, and each other agent checks it again. If that boot ever
answers, the death is withdrawn, and nobody believes another word about it.

Run it as root on a node that has quorum; one is enough. Your name, --reason and --reference stand in the agent's log
and status.

Exit codes: 0 the node is known to be dead; 1 it was refused, or the agent could not be asked; 2 bad usage, so also
without --boot.`,
		Example: `  fencectl confirm-dead n4
  fencectl confirm-dead n4 --boot 024bc581b3a34be3 --reason "PDU 3, outlet 7 is off"
  fencectl confirm-dead n4 --boot 024bc581b3a34be3 --proof power --reference fence-n4-off-1 --by fencing-executor`,
		Args: operands("NODE"),
	}
	d := &deathTold{deathWait: deathWait{env: env, agent: newSocketFlag(cmd)}}
	d.agent.timeout = confirmPatience
	flags := cmd.Flags()
	flags.Var((*bootFlag)(&d.boot), "boot", "the `boot` that has ended: a boot nonce, or the bootID of the Node in Kubernetes")
	flags.StringVar(&d.reason, "reason", "", "why you are sure, in `words`")
	flags.StringVar(&d.by, "by", "", "`name` of who says so (default: $SUDO_USER, else your user name)")
	flags.StringVar(&d.proof, "proof", "operator", "how it is known: operator, power (a power switch or management board answered \"off\") or kdump (its crash kernel answered)")
	flags.StringVar(&d.reference, "reference", "", "`name` of what can be looked up, such as the Job that switched it off; --proof power and kdump need it")
	flags.DurationVar(&d.agent.timeout, "timeout", confirmPatience, "how long to wait for the agent's answer")
	_ = cmd.RegisterFlagCompletionFunc("proof", cobra.FixedCompletions([]string{"operator", "power", "kdump"}, cobra.ShellCompDirectiveNoFileComp)) // fails for unknown flags only
	cmd.ValidArgsFunction = d.complete
	out := newPrinter(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d.node = args[0]
		if !cmd.Flags().Changed("boot") {
			return d.show(cmd.Context())
		}
		death, err := d.tell(cmd.Context())
		if err != nil {
			return err
		}
		if out.format == formatJSON {
			return out.print(env.stdout, confirmedOf(d.node, death), nil)
		}
		_, err = fmt.Fprint(env.stdout, d.line(death))
		return err
	}
	return cmd
}

// show prints what is known of the node, and what to type; it confirms nothing to the agent.
func (d *deathTold) show(ctx context.Context) error {
	st, err := getStatus(ctx, d.env, d.agent)
	if err != nil {
		return err
	}
	n, err := memberOf(st, d.node)
	if err != nil {
		return err
	}
	boot := bootOf(n)
	text := view.Clean(n.GetName()) + ": " + view.State(st, n).Text
	if n.GetStateAge() != nil && !n.GetReachable() {
		text += " for " + view.Ago(n.GetStateAge())
	}
	switch {
	case n.GetName() == st.GetSelf().GetName(), n.GetReachable():
		return fmt.Errorf("%s: it runs, and cannot be confirmed dead", text)
	case n.GetState() == fencingv1.NodeState_NODE_STATE_FENCED:
		text += fmt.Sprintf(", proof %s: there is nothing to confirm", proofText(n.GetDeath().GetProof()))
		_, err := fmt.Fprintln(d.env.stdout, text)
		return err
	case boot == "":
		return fmt.Errorf("%s: this agent has never seen that node, and knows no boot of it: ask the agent of a node that has been running since before that one was lost", text)
	}
	if _, err := fmt.Fprintf(d.env.stdout, "%s\nlatest known boot: %s\n\nSwitch it off, look that it is off, then type:\n\n    %s confirm-dead %s --boot %s --reason \"how you know that it is off\"\n",
		text, boot, d.env.command(), view.Clean(n.GetName()), boot); err != nil {
		return err
	}
	return usagef("--boot is missing, so nothing was confirmed")
}

// bootOf is the latest known boot of a node. The status of an older agent has it only in the token.
func bootOf(n *fencingv1.NodeStatus) string {
	token := n.GetToken().GetBootNonce()
	if strings.Trim(token, "0") == "" {
		token = ""
	}
	return view.Clean(cmp.Or(n.GetBootNonce(), token))
}

// tell asks the agent to check the death.
func (d *deathTold) tell(ctx context.Context) (*fencingv1.Death, error) {
	proof, ok := proofsToTell[d.proof]
	switch {
	case !ok:
		return nil, usagef("invalid argument %q for \"--proof\" flag: it must be one of operator, power, kdump", d.proof)
	case d.reference == "" && d.proof != "operator":
		return nil, usagef("--proof %s needs --reference: the name of what can be looked up, such as the Job", d.proof)
	}
	var answer *fencingv1.ConfirmDeadResponse
	err := d.agent.command(ctx, d.env, "not believed: ", func(ctx context.Context, c fencingv1.FencingControlClient) (err error) {
		answer, err = c.ConfirmDead(ctx, &fencingv1.ConfirmDeadRequest{
			Node: d.node, BootNonce: d.boot, Proof: proof, By: d.env.by(d.by), Reference: d.reference, Reason: d.reason,
		})
		return err
	})
	return answer.GetDeath(), err
}

func proofText(p fencingv1.Proof) string {
	return strings.ToLower(strings.TrimPrefix(p.String(), "PROOF_"))
}

// line describes the result, and how to check it.
func (d *deathTold) line(death *fencingv1.Death) string {
	r := confirmedOf(d.node, death)
	text := fmt.Sprintf("%s: FENCED - boot %s, proof %s", view.Clean(r.Node), view.Clean(r.Boot), r.Proof)
	if r.Proof != d.proof || r.By == "" {
		return text + "; it was known already\n"
	}
	return text + fmt.Sprintf(", told by %s\nthe other agents check it, too: look at \"%s wait --fenced %s --boot %s\" on their nodes\n",
		view.Clean(r.By), d.env.command(), view.Clean(r.Node), view.Clean(r.Boot))
}

func confirmedOf(node string, d *fencingv1.Death) deathResult {
	return deathResult{node, d.GetBootNonce(), proofText(d.GetProof()), d.GetTime().AsTime(), "", d.GetTeller(), d.GetBy(), d.GetReference(), d.GetReason()}
}
