package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/distributedapp"
	"github.com/fencing-agent/fencing-agent/k8s/distributedapp/gossip"
	"github.com/fencing-agent/fencing-agent/k8s/ownership"
	"github.com/fencing-agent/fencing-agent/k8s/program"
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version = ""

const usage = `distributedapp-operator keeps the pods of DistributedApps, by replicas that have no leader. It is a worked example.

Usage:
  distributedapp-operator --peers HOST:PORT [flags]

Example:
  distributedapp-operator --peers distributedapp-operator-gossip:7947 --key-file /etc/gossip/keys

The environment variables POD_NAME, POD_NAMESPACE and POD_IP name this replica, the namespace with its ConfigMap, and the
address where others reach it. What it does, step by step: docs/operator.md

Exit codes: 0 stopped by SIGTERM or SIGINT, 1 cannot start or go on, 2 bad usage.

Flags (one dash or two):
`

// flags is the whole configuration of the program. The configuration of the pods is in a ConfigMap.
type flags struct {
	*program.Flags
	gossip     gossip.Options
	peers      string
	keyFile    string
	namespace  string
	kubeconfig string
	metrics    string
	health     string
	ownership  string
	rank       func(work, self string, replicas []string) int
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	f, err := parse(args, stdout)
	return f.Main(err, stderr, func(ctx context.Context, log *slog.Logger) error {
		return serve(ctx, f, log.With("pod", f.gossip.Name))
	})
}

func parse(args []string, stdout io.Writer) (*flags, error) {
	name := os.Getenv("POD_NAME")
	if name == "" {
		name, _ = os.Hostname()
	}
	fs := program.NewFlags(distributedapp.Name, version)
	f := &flags{Flags: fs}
	fs.StringVar(&f.gossip.Name, "name", name, "`NAME` of this replica: $POD_NAME, or the host's name")
	fs.StringVar(&f.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "`NAMESPACE` of the ConfigMap "+distributedapp.ConfigMap)
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "`FILE`; empty: the service account of the pod")
	fs.StringVar(&f.gossip.Bind, "gossip-address", "0.0.0.0", "`ADDRESS` to listen at for the other replicas")
	fs.IntVar(&f.gossip.Port, "gossip-port", 7947, "`PORT`, UDP and TCP")
	fs.StringVar(&f.gossip.Advertise, "advertise-address", os.Getenv("POD_IP"), "`ADDRESS` at which the other replicas reach this one; empty: the machine's address")
	fs.IntVar(&f.gossip.AdvertisePort, "advertise-port", 0, "`PORT` at which the other replicas reach this one; 0: that of --gossip-port")
	fs.StringVar(&f.peers, "peers", "", "`HOST:PORT,...` to look for; a name may have several addresses, as that of a headless Service")
	fs.StringVar(&f.keyFile, "key-file", "", "`FILE` with one base64 AES key on each line, the first encrypts; empty: messages of anybody who reaches the port are accepted")
	fs.DurationVar(&f.gossip.ProbeInterval, "probe-interval", 10*time.Second, "probe interval of memberlist")
	fs.DurationVar(&f.gossip.ProbeTimeout, "probe-timeout", 5*time.Second, "probe timeout of memberlist")
	fs.DurationVar(&f.gossip.Rejoin, "rejoin-interval", 10*time.Second, "time between two searches for peers")
	fs.StringVar(&f.ownership, "ownership", "rendezvous", "`HOW` the hash orders replicas: when a replica comes or goes, rendezvous moves little work, modulo nearly all")
	fs.StringVar(&f.metrics, "metrics-address", ":9124", "`ADDRESS` where metrics are served; 0: nowhere")
	fs.StringVar(&f.health, "health-address", ":9125", "`ADDRESS` where /healthz and /readyz are served; 0: nowhere")
	if err := fs.Read(args, stdout, usage); err != nil {
		return f, err
	}
	return f, f.check()
}

func (f *flags) check() error {
	wrong := f.Wrong
	wrong(f.gossip.Name == "", "--name is missing, and so is $POD_NAME")
	wrong(f.namespace == "", "--namespace is missing, and so is $POD_NAMESPACE")
	f.gossip.Peers = strings.FieldsFunc(f.peers, func(r rune) bool { return r == ',' || r == ' ' })
	wrong(len(f.gossip.Peers) == 0, "--peers is missing: the other replicas are not found without it")
	wrong(f.gossip.Rejoin <= 0, "--rejoin-interval is %v, but must be more than 0", f.gossip.Rejoin)
	wrong(f.gossip.ProbeTimeout > f.gossip.ProbeInterval, "--probe-timeout %v is longer than --probe-interval %v", f.gossip.ProbeTimeout, f.gossip.ProbeInterval)
	switch f.ownership {
	case "rendezvous":
		f.rank = ownership.Rank
	case "modulo":
		f.rank = ownership.RankModulo
	default:
		wrong(true, "--ownership is %q, but must be rendezvous or modulo", f.ownership)
	}
	return f.Check()
}
