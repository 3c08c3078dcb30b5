package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/fencing-agent/fencing-agent/k8s/fencing"
	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/program"
	"github.com/fencing-agent/fencing-agent/k8s/storagefence"
	"github.com/fencing-agent/fencing-agent/k8s/storagewatch"
)

const storageUsage = `fencing-controller storage gets opted-in pods off nodes that their storage has given up.

Usage:
  fencing-controller storage --storage-url URL --driver NAME [flags]
  fencing-controller storage --node-fences --driver NAME --cleanup delete [flags]

Example:
  fencing-controller storage --storage-url https://storage.example:5705/v2 --storage-credentials /etc/storage \
    --driver csi.storageos.com --cleanup delete --storage-refuses-writes --dry-run=false

Flags (one dash or two):
`

// storageSlack is how much longer than its attempt a request may take.
const storageSlack = 5 * time.Second

// storageFlags is the whole configuration of the storage part.
type storageFlags struct {
	*program.Flags
	url, credentials, ca string
	nodeFences           bool
	driver, labels       string
	cleanup              string
	refuses, dryRun      bool
	poll, expiry         time.Duration
	timeout, retry       time.Duration
	workers              int
	kubeconfig           string
	metrics, health      string
}

// runStorage is the subcommand.
func runStorage(args []string, stdout, stderr io.Writer) int {
	f, err := parseStorage(args, stdout)
	return f.Main(err, stderr, func(ctx context.Context, log *slog.Logger) error { return serveStorage(ctx, f, log) })
}

func parseStorage(args []string, stdout io.Writer) (*storageFlags, error) {
	fs := program.NewFlags("fencing-controller storage", version)
	f := &storageFlags{Flags: fs}
	fs.StringVar(&f.url, "storage-url", "", "`URL` of the storage's API, such as https://HOST:5705/v2")
	fs.BoolVar(&f.nodeFences, "node-fences", false, "the storage has no such API: a node is offline for it when its NodeFence has cut it off (docs/power.md)")
	fs.StringVar(&f.credentials, "storage-credentials", "", "`DIR` with the files username and password; empty: no login")
	fs.StringVar(&f.ca, "storage-ca", "", "`FILE` of certificates that the API's is checked with; empty: the system's")
	fs.StringVar(&f.driver, "driver", "", "`NAME` of the storage's CSI driver; other volumes are not touched")
	fs.StringVar(&f.labels, "labels", "storageos.com/fenced,fencing-agent.io/fenced", "`KEYS` of pods' labels; one of them with the value true opts in")
	fs.StringVar(&f.cleanup, "cleanup", string(storagewatch.CleanupTaint), "`HOW` volumes come off: taint waits for the taint out-of-service, delete deletes VolumeAttachments")
	fs.BoolVar(&f.refuses, "storage-refuses-writes", false, "you vouch that the storage refuses the writes of a node that it calls offline; delete needs it")
	fs.BoolVar(&f.dryRun, "dry-run", true, "write nothing but Events and the log")
	fs.DurationVar(&f.poll, "node-poll-interval", 5*time.Second, "between two looks at the storage's nodes, 1s at least")
	fs.DurationVar(&f.expiry, "node-expiry-interval", time.Hour, "after which a node that is still unhealthy is handled once more")
	fs.IntVar(&f.workers, "node-fencer-workers", 5, "`N` nodes at a time")
	fs.DurationVar(&f.timeout, "node-fencer-timeout", 25*time.Second, "of handling one node, all attempts together")
	fs.DurationVar(&f.retry, "node-fencer-retry-interval", 5*time.Second, "from a failed attempt to the next")
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "`FILE`; empty: the service account of the pod")
	fs.StringVar(&f.metrics, "metrics-address", ":9122", "`ADDRESS` where metrics are served")
	fs.StringVar(&f.health, "health-address", ":9123", "`ADDRESS` where /healthz is served")
	if err := fs.Read(args, stdout, storageUsage); err != nil {
		return f, err
	}
	return f, f.check()
}

func (f *storageFlags) check() error {
	wrong := f.Wrong
	wrong(f.url == "" && !f.nodeFences, "--storage-url is missing")
	wrong(f.nodeFences && f.url+f.credentials+f.ca != "", "with --node-fences no storage is asked: remove --storage-url, --storage-credentials and --storage-ca")
	wrong(f.driver == "", "--driver is missing")
	wrong(len(f.keys()) == 0, "--labels is empty: pods opt in by a label")
	how := storagewatch.Cleanup(f.cleanup)
	wrong(how != storagewatch.CleanupTaint && how != storagewatch.CleanupDelete, "--cleanup is %q, but must be taint or delete", f.cleanup)
	wrong(f.nodeFences && how != storagewatch.CleanupDelete, "--node-fences needs --cleanup delete: a node that was cut off from one storage never gets the taint out-of-service for that")
	wrong(f.nodeFences && f.timeout > nodefence.ReturnWait-storageSlack, "--node-fencer-timeout is %v, but with --node-fences it must be at most %v, since storage is given back that soon", f.timeout, nodefence.ReturnWait-storageSlack)
	wrong(how == storagewatch.CleanupDelete && !f.refuses && !f.nodeFences,
		"--cleanup delete needs --storage-refuses-writes: unless the storage refuses its writes, a node that is cut off goes on writing to a volume that is attached elsewhere")
	wrong(f.poll < time.Second, "--node-poll-interval is %v, but must be at least 1s", f.poll)
	wrong(f.expiry < f.poll, "--node-expiry-interval is %v, but must not be shorter than --node-poll-interval", f.expiry)
	wrong(f.timeout <= 0, "--node-fencer-timeout is %v, but must be more than 0", f.timeout)
	wrong(f.retry <= 0, "--node-fencer-retry-interval is %v, but must be more than 0", f.retry)
	wrong(f.workers < 1 || f.workers > 100, "--node-fencer-workers is %d, but must be 1 to 100", f.workers)
	return f.Check()
}

func (f *storageFlags) keys() []string {
	return strings.FieldsFunc(f.labels, func(r rune) bool { return r == ',' || r == ' ' })
}

// provider returns the storage, or the NodeFences that cut nodes off from it.
func (f *storageFlags) provider(reader client.Reader) (storagewatch.Provider, error) {
	if f.nodeFences {
		return storagewatch.NewNodeFences(reader, f.driver, time.Now), nil
	}
	return storagewatch.NewHTTP(f.url, f.credentials, f.ca)
}

// serveStorage serves until the context ends.
func serveStorage(ctx context.Context, f *storageFlags, log *slog.Logger) error {
	mgr, err := program.Manager(program.API{
		Kubeconfig: f.kubeconfig, UserAgent: storageAgent, QPS: qps,
		Types: []func(*runtime.Scheme) error{corev1.AddToScheme, storagev1.AddToScheme, coordinationv1.AddToScheme, fencing.AddToScheme},
	}, ctrl.Options{HealthProbeBindAddress: f.health, Metrics: server.Options{BindAddress: f.metrics}}, log)
	if err != nil {
		return err
	}
	provider, err := f.provider(mgr.GetAPIReader())
	if err != nil {
		return err
	}
	err = mgr.Add(storagewatch.New(storagewatch.Options{
		Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Events: mgr.GetEventRecorder(storageAgent), Logger: log,
		Metrics: storagewatch.NewMetrics(metrics.Registry), Now: time.Now, Provider: provider,
		Rules:    storagefence.Rules{Driver: f.driver, Labels: f.keys()},
		Settings: storagefence.Settings{Poll: f.poll, Expiry: f.expiry, Timeout: f.timeout, Retry: f.retry},
		Workers:  f.workers, Cleanup: storagewatch.Cleanup(f.cleanup), DryRun: f.dryRun,
	}))
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return program.Run(ctx, mgr, log, "storage fencing", "version", f.Version, "dryRun", f.dryRun, "cleanup", f.cleanup, "driver", f.driver)
}
