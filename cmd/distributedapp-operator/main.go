package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/distributedapp"
	"github.com/fencing-agent/fencing-agent/k8s/distributedapp/operator"
	"github.com/fencing-agent/fencing-agent/k8s/ownership"
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

// flags is the whole configuration of the program. That of the pods is in a ConfigMap.
type flags struct {
	core                distributedapp.Settings
	namespace           string
	stable              time.Duration
	workers             int
	kubeconfig          string
	bind, advertise     string
	port, advertisePort int
	peers, keyFile      string
	probe, probeTimeout time.Duration
	tcp, rejoin         time.Duration
	metrics, health     string
	ownership, level    string
	logLevel            slog.Level
	version             bool
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	f, err := parse(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "distributedapp-operator: %s; see distributedapp-operator --help\n", strings.ReplaceAll(err.Error(), "\n", "; "))
		return 2
	case f.version:
		fmt.Fprintln(stdout, "distributedapp-operator", versionText())
		return 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: f.logLevel, ReplaceAttr: readable})).With("pod", f.core.Self)
	if err := serve(ctx, f, log); err != nil {
		fmt.Fprintf(stderr, "distributedapp-operator: %v\n", err)
		return 1
	}
	return 0
}

func parse(args []string, stdout io.Writer) (*flags, error) {
	name := os.Getenv("POD_NAME")
	if name == "" {
		name, _ = os.Hostname()
	}
	f := &flags{core: distributedapp.Defaults(name)}
	fs := flag.NewFlagSet(operator.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&f.core.Self, "name", f.core.Self, "`NAME` of this replica: $POD_NAME, or the host's name")
	fs.StringVar(&f.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "`NAMESPACE` of the ConfigMap "+operator.ConfigMap)
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "`FILE`; empty: the service account of the pod")
	fs.StringVar(&f.bind, "gossip-address", "0.0.0.0", "`ADDRESS` to listen at for the other replicas")
	fs.IntVar(&f.port, "gossip-port", 7947, "`PORT`, UDP and TCP")
	fs.StringVar(&f.advertise, "advertise-address", os.Getenv("POD_IP"), "`ADDRESS` where the others reach this replica; empty: that of the machine")
	fs.IntVar(&f.advertisePort, "advertise-port", 0, "`PORT` where they do; 0: that of --gossip-port")
	fs.StringVar(&f.peers, "peers", "", "`HOST:PORT,...` to look for; a name may have several addresses, as that of a headless Service")
	fs.StringVar(&f.keyFile, "key-file", "", "`FILE` with a base64 AES key a line, the first encrypts; empty: anybody who reaches the port is heard")
	fs.DurationVar(&f.probe, "probe-interval", 10*time.Second, "of memberlist")
	fs.DurationVar(&f.probeTimeout, "probe-timeout", 5*time.Second, "of memberlist")
	fs.DurationVar(&f.tcp, "tcp-timeout", 30*time.Second, "of memberlist")
	fs.DurationVar(&f.rejoin, "rejoin-interval", 10*time.Second, "peers that are no members are looked for so often")
	fs.StringVar(&f.ownership, "ownership", "rendezvous", "`HOW` the hash orders replicas: rendezvous moves little when one comes or goes, modulo nearly all")
	fs.DurationVar(&f.core.Pause, "pause", f.core.Pause, "for which a replica leaves an app to each one before it")
	fs.DurationVar(&f.core.Resync, "resync-interval", f.core.Resync, "all apps are looked at so often")
	fs.DurationVar(&f.stable, "stable", 20*time.Second, "so long no replica may come or go before an app that was deleted is let go; six times that at most")
	fs.IntVar(&f.workers, "workers", 4, "`N` apps that are looked at at one time")
	fs.StringVar(&f.metrics, "metrics-address", ":9124", "`ADDRESS` where metrics are served; 0: nowhere")
	fs.StringVar(&f.health, "health-address", ":9125", "`ADDRESS` where /healthz and /readyz are served; 0: nowhere")
	fs.StringVar(&f.level, "log-level", "info", "debug, info, warn or error; JSON on stderr")
	fs.BoolVar(&f.version, "version", false, "print the version and exit")
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return nil, err
	}
	if err != nil || f.version {
		return f, err
	}
	return f, f.check(fs.Args())
}

// check reports all that is wrong at once.
func (f *flags) check(rest []string) error {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(len(rest) > 0, "unexpected argument %q", slices.Concat(rest, []string{""})[0])
	wrong(f.core.Self == "", "--name is missing, and so is $POD_NAME")
	wrong(f.namespace == "", "--namespace is missing, and so is $POD_NAMESPACE")
	wrong(len(f.peerList()) == 0, "--peers is missing: the other replicas are not found without it")
	for _, p := range f.peerList() {
		_, port, err := net.SplitHostPort(p)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		wrong(err != nil, "--peers %q: HOST:PORT is allowed, such as distributedapp-operator-gossip:7947", p)
	}
	for name, ip := range map[string]string{"gossip-address": f.bind, "advertise-address": f.advertise} {
		_, err := netip.ParseAddr(ip)
		wrong(err != nil && ip != "", "--%s %q: an IP address is allowed", name, ip)
	}
	for _, port := range []int{f.port, f.advertisePort} {
		wrong(port < 0 || port > 65535, "port %d: 0 to 65535 are allowed", port)
	}
	for name, d := range map[string]time.Duration{"probe-interval": f.probe, "probe-timeout": f.probeTimeout, "tcp-timeout": f.tcp, "rejoin-interval": f.rejoin, "resync-interval": f.core.Resync} {
		wrong(d <= 0, "--%s %v: more than 0 is allowed", name, d)
	}
	wrong(f.probeTimeout > f.probe, "--probe-timeout %v is longer than --probe-interval %v", f.probeTimeout, f.probe)
	wrong(f.core.Pause < 0 || f.stable < 0, "--pause and --stable: 0s is the least")
	wrong(f.workers < 1 || f.workers > 100, "--workers %d: 1 to 100 are allowed", f.workers)
	switch f.ownership {
	case "rendezvous":
		f.core.Rank = ownership.Rank
	case "modulo":
		f.core.Rank = ownership.RankModulo
	default:
		wrong(true, "--ownership %q: rendezvous or modulo is allowed", f.ownership)
	}
	wrong(f.logLevel.UnmarshalText([]byte(f.level)) != nil, "--log-level %q: debug, info, warn or error is allowed", f.level)
	return errors.Join(errs...)
}

func (f *flags) peerList() []string {
	return strings.FieldsFunc(f.peers, func(r rune) bool { return r == ',' || r == ' ' })
}

// readable prints durations as "5s" in JSON, where they would be nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "dev"
}
