package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/api/view"
)

const (
	// kubectlTimeout is how long kubectl may take for an answer of a few lines.
	kubectlTimeout = 15 * time.Second
	// clusterAsks is how many agents are asked at once.
	clusterAsks = 16
	// agentSelector finds the agents' pods of every release.
	agentSelector = "app.kubernetes.io/name=fencing-agent"
	// agentConfig is the path of the agent's configuration in a pod that does not name another.
	agentConfig = "/etc/fencing-agent/config/agent.yaml"
	// commandEnded begins the line that kubectl adds after the output of a command that failed.
	commandEnded = "command terminated with exit code"
)

// slowError means that there was no answer within a time.
type slowError time.Duration

func (e slowError) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(e)) }

const errKubectlSlow = slowError(kubectlTimeout)

// kubeFlags are the flags of the verbs that ask kubectl.
type kubeFlags struct {
	program, context string
	patience         time.Duration // how long kubectl may take for each answer; 0: kubectlTimeout
}

func newKubeFlags(cmd *cobra.Command) *kubeFlags {
	k := new(kubeFlags)
	cmd.Flags().StringVar(&k.program, "kubectl", "kubectl", "the program kubectl")
	cmd.Flags().StringVar(&k.context, "context", "", "the `context` of the kubeconfig")
	return k
}

// args names the context, after the verb.
func (k *kubeFlags) args(args ...string) []string {
	if k.context != "" {
		args = slices.Insert(slices.Clone(args), 1, "--context", k.context)
	}
	return args
}

func (k *kubeFlags) run(ctx context.Context, args ...string) ([]byte, error) {
	return k.runWith(ctx, "", args...)
}

// askJSON reads what kubectl answers.
func askJSON(ctx context.Context, ask func(context.Context, ...string) ([]byte, error), into any, args ...string) error {
	text, err := ask(ctx, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("cannot read the answer of kubectl %s: %w", args[0], err)
	}
	return nil
}

// runWith also gives kubectl an input. The last line on kubectl's stderr is the error; the output of a kubectl that
// failed is returned as well.
func (k *kubeFlags) runWith(ctx context.Context, input string, args ...string) ([]byte, error) {
	patience := cmp.Or(k.patience, kubectlTimeout)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var complaint bytes.Buffer
	c := exec.CommandContext(ctx, k.program, k.args(args...)...)
	c.Stdin, c.Stderr = strings.NewReader(input), &complaint
	c.WaitDelay = time.Second // a child process may keep its output open
	text, err := c.Output()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("kubectl %s: %w", args[0], slowError(patience))
	}
	return text, explainKubectl(err, args[0], complaint.String())
}

// explainKubectl says why kubectl failed.
func explainKubectl(err error, verb, complaint string) error {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		lines := strings.Split(strings.TrimSpace(complaint), "\n")
		if n := len(lines); n > 1 && strings.HasPrefix(lines[n-1], commandEnded) {
			lines = lines[:n-1]
		}
		return fmt.Errorf("kubectl %s: %s", verb, cmp.Or(view.Clean(lines[len(lines)-1]), exit.String()))
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no kubectl: install it, or name it with --kubectl: %w", err)
	}
	return err
}

// agentPod is a pod with an agent.
type agentPod struct{ node, name, namespace string }

// agentPods lists the agents' pods, of one node or, with "", of all. There is at least one if there is no error.
func agentPods(ctx context.Context, ask func(context.Context, ...string) ([]byte, error), namespace, node string) ([]agentPod, error) {
	args := []string{"get", "pods", "-l", agentSelector, "-o", "json"}
	if namespace == "" {
		args = append(args, "--all-namespaces")
	} else {
		args = append(args, "--namespace", namespace)
	}
	if node != "" {
		args = append(args, "--field-selector", "spec.nodeName="+node)
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name, Namespace string }
			Spec     struct{ NodeName string }
		}
	}
	if err := askJSON(ctx, ask, &list, args...); err != nil {
		return nil, err
	}
	var pods []agentPod
	for _, i := range list.Items {
		pods = append(pods, agentPod{i.Spec.NodeName, i.Metadata.Name, i.Metadata.Namespace})
	}
	switch {
	case len(pods) > 0:
	case node != "":
		return nil, fmt.Errorf("no pod with the label %s runs on %s: is that the name of a Node, and does its group have agents? An agent of a package is asked on its node", agentSelector, view.Clean(node))
	default:
		return nil, errors.New("there is no pod with the label " + agentSelector + ": use --context or --namespace, or ask agents of a package with fencectl status on their nodes")
	}
	slices.SortFunc(pods, func(a, b agentPod) int { return cmp.Or(view.Compare(a.node, b.node), cmp.Compare(a.name, b.name)) })
	return pods, nil
}

// inPod is a command line that runs fencectl beside an agent.
func (p *agentPod) inPod(args ...string) []string {
	return append([]string{"exec", "--namespace", p.namespace, p.name, "--", "fencectl"}, args...)
}
