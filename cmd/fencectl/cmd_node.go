package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

// nodeOrder is a request to fence a node by its devices.
type nodeOrder struct {
	env                  *environment
	kube                 *kubeFlags
	namespace, boot, why string
	step                 string
	node                 string
}

// stepsToBegin lists the steps with which a NodeFence may begin.
var stepsToBegin = []string{"isolation", "power_management"}

func newNodeCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node NODE",
		Short: "Have fencing-controller switch a node off and on by its devices",
		Long: `Ask fencing-controller to fence NODE by its devices, Ready or not: a NodeFence is made for its present boot. With
--step power_management its power is cut, and when each supply is confirmed to be off, switched on again. With
--step isolation its storage or network is cut first, as for a node that has stopped answering.

    Nothing is shut down. Pods on NODE lose what they have in memory.

Without --boot nothing is asked: the command shows the node with its present boot, and what to type. A boot has to be
named, so that a node that has restarted meanwhile is left alone.

It asks kubectl, with your rights and your kubeconfig. NODE needs a ConfigMap fence-config-NODE, and the controller
nodeFence.enabled. It does not wait: "explain NODE" shows how it goes on.

Exit codes: 0 it was asked for; 1 it was refused, or kubectl failed; 2 bad usage, so also without --boot.`,
		Example: `  fencectl node n4
  fencectl node n4 --boot 024bc581b3a34be3 --reason "kernel hangs in the HBA driver"
  fencectl node n4 --boot 024bc581b3a34be3 --step isolation`,
		Args: operands("NODE"),
	}
	o := &nodeOrder{env: env, kube: newKubeFlags(cmd)}
	flags := cmd.Flags()
	flags.Var((*bootFlag)(&o.boot), "boot", "fence this `boot` and no other: a boot nonce, or the bootID of the Node")
	flags.StringVar(&o.step, "step", "power_management", "`step` to begin with: isolation or power_management")
	flags.StringVar(&o.why, "reason", "", "why, in `words`: an annotation of the NodeFence shows them")
	flags.StringVarP(&o.namespace, "namespace", "n", controllerName, "the `namespace` of the ConfigMaps")
	_ = cmd.RegisterFlagCompletionFunc("boot", cobra.NoFileCompletions)                                                  // fails for unknown flags only
	_ = cmd.RegisterFlagCompletionFunc("step", cobra.FixedCompletions(stepsToBegin, cobra.ShellCompDirectiveNoFileComp)) // as above
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.node = args[0]
		if o.step != stepsToBegin[0] && o.step != stepsToBegin[1] {
			return usagef("invalid argument %q for \"--step\" flag: it must be one of %s", o.step, strings.Join(stepsToBegin, ", "))
		}
		if !cmd.Flags().Changed("boot") {
			return o.show(cmd.Context())
		}
		return o.ask(cmd.Context())
	}
	return cmd
}

// fenceable is the part of a Node that is needed to fence it.
type fenceable struct{ uid, boot, ready string }

// look reads the Node, and checks that there is a configuration for fencing it.
func (o *nodeOrder) look(ctx context.Context) (fenceable, error) {
	var n kubeNode
	if err := askJSON(ctx, o.kube.run, &n, "get", "node", o.node, "-o", "json"); err != nil {
		return fenceable{}, err
	}
	f := fenceable{uid: n.Metadata.UID, boot: deaths.Boot(n.Status.NodeInfo.BootID), ready: n.ready()}
	if f.boot == "" {
		return f, fmt.Errorf("%s has no bootID in its status, so nobody could tell whether that boot has ended", view.Clean(o.node))
	}
	if _, err := o.kube.run(ctx, "get", "configmap", "fence-config-"+o.node, "--namespace", o.namespace, "-o", "name"); err != nil {
		return f, fmt.Errorf("%s is not managed: it needs the ConfigMap fence-config-%s in the namespace %s: %w", view.Clean(o.node), view.Clean(o.node), view.Clean(o.namespace), err)
	}
	return f, nil
}

// show prints the node's state, and what to type.
func (o *nodeOrder) show(ctx context.Context) error {
	f, err := o.look(ctx)
	if err != nil {
		return err
	}
	name := view.Clean(o.node)
	if _, err := fmt.Fprintf(o.env.stdout, "%s: Ready %s\npresent boot: %s\n\nIts pods lose what they have in memory. To have it fenced, type:\n\n    %s node %s --boot %s --step %s --reason \"why\"\n",
		name, cmp.Or(view.Clean(f.ready), "unknown"), f.boot, o.env.command(), name, f.boot, o.step); err != nil {
		return err
	}
	return usagef("--boot is missing, so no fencing was requested")
}

// ask creates the NodeFence. The API server refuses a second one for the same node.
func (o *nodeOrder) ask(ctx context.Context) error {
	f, err := o.look(ctx)
	switch {
	case err != nil:
		return err
	case f.boot != o.boot:
		return fmt.Errorf("%s shows the boot %s now, and not %s: look at the node again, it may no longer need fencing", view.Clean(o.node), f.boot, o.boot)
	}
	name := "node-fence-" + o.node
	metadata := map[string]any{"name": name}
	if o.why != "" {
		metadata["annotations"] = map[string]string{"fencing-agent.io/reason": o.why}
	}
	object, err := json.Marshal(map[string]any{
		"apiVersion": "fencing-agent.io/v1alpha1", "kind": "NodeFence", "metadata": metadata,
		"spec": map[string]any{"nodeName": o.node, "nodeUID": f.uid, "boot": o.boot, "step": o.step},
	})
	if err != nil {
		return err
	}
	if _, err := o.kube.runWith(ctx, string(object), "create", "-f", "-"); err != nil {
		if strings.Contains(err.Error(), "AlreadyExists") {
			return fmt.Errorf("%s is being fenced already: look at \"%s explain %s\"", view.Clean(o.node), o.env.command(), view.Clean(o.node))
		}
		return err
	}
	_, err = fmt.Fprintf(o.env.stdout, "%s: asked for %s of the boot %s; look at \"%s explain %s\", or: kubectl get nodefence %s -w\n",
		view.Clean(o.node), o.step, o.boot, o.env.command(), view.Clean(o.node), view.Clean(name))
	return err
}
