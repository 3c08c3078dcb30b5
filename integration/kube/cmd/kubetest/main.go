// Kubetest is Kubernetes in one program, for tests against a real API server and on real nodes, because one program
// links in a fraction of the time of six. make test-kube runs etcd, the API server and kubectl, and make cluster runs
// all of them.
//
//	kubetest etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kubectl [FLAGS]
//
// The first argument selects one of them; a link with the name of one of them selects it as well.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the programs
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	args := slices.Clone(os.Args)
	args[0] = filepath.Base(args[0])
	if args[0] == "kubetest" && len(args) > 1 {
		args = args[1:]
	}
	os.Args = args // the commands below read this
	commands := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": manager.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
		"kubectl":                 cmd.NewDefaultKubectlCommand,
	}
	if args[0] == "etcd" {
		etcdmain.Main(args)
		return
	}
	command, ok := commands[args[0]]
	if !ok {
		fmt.Fprintln(os.Stderr, "usage: kubetest etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kubectl [FLAGS]")
		os.Exit(2)
	}
	os.Exit(cli.Run(command()))
}
