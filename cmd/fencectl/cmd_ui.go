package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/api/view"
)

// controllerPort is where a replica of fencing-controller serves its page.
const controllerPort = 9124

// viewer shows a page that runs in a cluster.
type viewer struct {
	env             *environment
	kube            *kubeFlags
	namespace       string
	port, localPort int
	open            bool
	browse          func(ctx context.Context, url string) error // nil: the system's browser
}

func newUICommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ui [NODE]",
		Short: "Make the status page of a node, or of the cluster, reachable from here",
		Long: `Forward a local port, by kubectl port-forward, to the status page of the agent on NODE, and print its address. Without
NODE it is the page of fencing-controller, which shows the whole cluster. It goes on until it is interrupted. Nothing is
opened, unless --open says so. Where the agent listens on its node's address, which a forwarded port does not reach,
each connection goes through kubectl exec.

It runs kubectl with your rights and your kubeconfig: to list pods, and to create pods/portforward or pods/exec.`,
		Example: "  kubectl fence ui n4\n  fencectl ui n4 --context prod --open\n  fencectl ui",
		Args:    optional,
	}
	u := &viewer{env: env, kube: newKubeFlags(cmd)}
	flags := cmd.Flags()
	flags.StringVarP(&u.namespace, "namespace", "n", "", "the `namespace` of the agents (default: all), or of fencing-controller")
	flags.IntVar(&u.port, "port", 0, "forward this `port` of the pod (default: what the pod says)")
	flags.IntVar(&u.localPort, "local-port", 0, "the `port` here (default: one that is free)")
	flags.BoolVar(&u.open, "open", false, "open the page in a browser")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for name, port := range map[string]int{"port": u.port, "local-port": u.localPort} {
			if cmd.Flags().Changed(name) && (port < 1 || port > 65535) {
				return usagef("invalid argument %d for \"--%s\" flag: 1 to 65535 are possible", port, name)
			}
		}
		var pod *agentPod
		var err error
		if len(args) > 0 {
			pod, err = u.agent(cmd.Context(), args[0])
		} else {
			pod, err = u.controller(cmd.Context())
		}
		if err != nil {
			return err
		}
		return u.show(cmd.Context(), pod)
	}
	return cmd
}

// agent finds the agent's pod of a node.
func (u *viewer) agent(ctx context.Context, node string) (*agentPod, error) {
	pods, err := agentPods(ctx, u.kube.run, u.namespace, node)
	if err != nil {
		return nil, err
	}
	return &pods[0], nil
}

// controller finds a replica that is ready.
func (u *viewer) controller(ctx context.Context) (*agentPod, error) {
	namespace := u.namespace
	if namespace == "" {
		namespace = controllerName
	}
	text, err := u.kube.run(ctx, "get", "pods", "--namespace", namespace, "-l", "app.kubernetes.io/name="+controllerName, "-o",
		`jsonpath={range .items[*]}{.metadata.name} {range .status.conditions[?(@.type=="Ready")]}{.status}{end}{"\n"}{end}`)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if name, ready, _ := strings.Cut(strings.TrimSpace(line), " "); ready == "True" {
			return &agentPod{name: name, namespace: namespace, port: controllerPort}, nil
		}
	}
	return nil, fmt.Errorf("no replica of fencing-controller is ready in the namespace %s: give -n NAMESPACE, or the NODE whose agent is to be shown", view.Clean(namespace))
}

// forwarded is what kubectl says when a port can be used.
var forwarded = regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:[0-9]+) `)

// show forwards the port until it is interrupted.
func (u *viewer) show(ctx context.Context, pod *agentPod) error {
	if pod.elsewhere && u.port == 0 {
		return u.tunnel(ctx, pod)
	}
	port := pod.port
	if u.port > 0 {
		port = u.port
	}
	from := ""
	if u.localPort > 0 {
		from = strconv.Itoa(u.localPort)
	}
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	args := u.kube.args("port-forward", "--namespace", pod.namespace, "--address", "127.0.0.1", "pod/"+pod.name, from+":"+strconv.Itoa(port))
	c := exec.CommandContext(own, u.kube.program, args...)
	var complaint bytes.Buffer
	c.Stderr, c.WaitDelay = &complaint, time.Second
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return explainKubectl(err, args[0], "")
	}
	var failed error
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := forwarded.FindStringSubmatch(lines.Text()); m != nil && failed == nil {
			failed = u.tell(own, "http://"+m[1]+"/")
			if failed != nil {
				cancel() // kubectl ends, and with it these lines
			}
		}
	}
	err = c.Wait()
	switch {
	case failed != nil:
		return failed
	case ctx.Err() != nil: // as it was meant to end
		return nil
	case err == nil:
		return errors.New("kubectl port-forward ended: the pod has gone")
	}
	return explainKubectl(err, args[0], complaint.String())
}

func (u *viewer) tell(ctx context.Context, url string) error {
	if _, err := fmt.Fprintln(u.env.stdout, url); err != nil {
		return err
	}
	if !u.open {
		return nil
	}
	browse := u.browse
	if browse == nil {
		browse = openBrowser
	}
	if err := browse(ctx, url); err != nil {
		u.env.warn("no browser could be started: " + err.Error())
	}
	return nil
}

// openBrowser starts what the system opens pages with.
func openBrowser(ctx context.Context, url string) error {
	program := map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}[runtime.GOOS]
	if program == nil {
		program = []string{"xdg-open"}
	}
	return exec.CommandContext(ctx, program[0], append(program[1:], url)...).Run()
}
