// Cluster keeps a real cluster on this machine, with the agents in it, until Ctrl-C:
//
//	cluster up REPOSITORY          needs root; make cluster calls it
//	cluster VERB [ARGUMENT...]     does something to the one that runs; cluster help lists the verbs
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
	"github.com/fencing-agent/fencing-agent/integration/cluster/room"
)

// nodes is the number of nodes in the manifest's group.
const nodes = 4

// socketName is the name of the socket in the room's folder.
const socketName = "control.sock"

func main() {
	args := os.Args[1:]
	var err error
	switch {
	case len(args) == 2 && args[0] == "up":
		err = up(args[1])
	case len(args) == 0, args[0] == "help", args[0] == "--help", args[0] == "-h", args[0] == "up":
		fmt.Printf("usage: cluster up REPOSITORY, or, while it runs:\n%s", cluster.Verbs())
	default:
		err = ask(args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// ask passes a command to the running cluster.
func ask(words []string) error {
	found, err := filepath.Glob(filepath.Join(os.TempDir(), "fencing-cluster-*", socketName))
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("%d clusters run on this machine (%s): start one with make cluster", len(found), strings.Join(found, " "))
	}
	out, err := cluster.Ask(found[0], words)
	fmt.Print(out)
	return err
}

func up(root string) error {
	programs, err := cluster.ProgramsIn(root)
	if err != nil {
		return err
	}
	r, err := room.Enter()
	if err != nil {
		return err
	}
	kind, err := cluster.KindOf(os.Getenv(cluster.KindEnv), r, programs)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Printf("cluster: %5.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	c, err := cluster.Start(ctx, cluster.Config{
		Nodes: nodes, Programs: programs, Room: r, Kind: kind,
		Manifest: cluster.ManifestIn(root), Say: say,
	})
	if err != nil {
		return err
	}
	if err := c.Install(ctx); err != nil {
		return err
	}
	kubeconfig := filepath.Join(r.Dir, "kubeconfig")
	if err := c.Plane.Kubeconfig(kubeconfig, c.Address()); err != nil {
		return err
	}
	control, err := net.Listen("unix", filepath.Join(r.Dir, socketName))
	if err != nil {
		return err
	}
	go c.Serve(ctx, control)
	hints(c, kubeconfig)
	<-ctx.Done()
	say("ending; nothing is left behind")
	return nil // everything ends with the room
}

func hints(c *cluster.Cluster, kubeconfig string) {
	fmt.Printf(`
The cluster runs until Ctrl-C. In another terminal, in the repository:

  export KUBECONFIG=%s PATH=$PWD/bin/cluster:$PATH
  kubectl get nodes,pods -A -o wide
  kubectl -n fencing-agent exec daemonset/fencing-agent-storage -- fencectl status
  kubectl -n fencing-agent logs -l app.kubernetes.io/name=fencing-agent --prefix --tail=5

and break it, with sudo where you are not root:

  bin/cluster/cluster cut node-4        # silently off all networks
  bin/cluster/cluster status            # what the agents say: node-4 is left out after some ten seconds
  bin/cluster/cluster heal node-4
  bin/cluster/cluster power-off node-3
  bin/cluster/cluster boot node-3       # fenced is proven by another boot
  bin/cluster/cluster help              # the LUN, kubelets, the API server, ...

Logs are in %s
`, kubeconfig, c.Dir())
}
