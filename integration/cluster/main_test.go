package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/cluster"
	"github.com/fencing-agent/fencing-agent/integration/cluster/machine"
	"github.com/fencing-agent/fencing-agent/integration/cluster/room"
)

// enableEnv names the variable that enables the scenarios. They need root, what make test-cluster builds, and several
// minutes.
const enableEnv = "FENCING_TEST_CLUSTER"

// root is the path of the repository.
const root = "../.."

// shared is the cluster of the scenarios; nil: the next scenario needs a new one.
var (
	shared *cluster.Cluster
	inside *room.Room
)

func TestMain(m *testing.M) {
	if os.Getenv(pretendEnv) != "" {
		pretend()
	}
	if os.Getenv(enableEnv) == "" {
		os.Exit(m.Run())
	}
	var err error
	if inside, err = room.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		os.Exit(130) // everything ends with the room
	}()
	os.Exit(m.Run())
}

// whole returns a cluster without any fault.
func whole(t *testing.T) *cluster.Cluster {
	t.Helper()
	if os.Getenv(enableEnv) == "" {
		t.Skipf("set %s=1 as root to run the agents in a real cluster (make test-cluster)", enableEnv)
	}
	if shared != nil {
		return shared
	}
	programs, err := cluster.ProgramsIn(root)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Config{
		Nodes: 4, Programs: programs, Room: inside, Kind: kind(t, programs), Manifest: cluster.ManifestIn(root), Say: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Install(t.Context()); err != nil {
		t.Fatal(errors.Join(err, c.Close()))
	}
	shared = c
	return c
}

// kind returns the kind of nodes that the environment names.
func kind(t *testing.T, p cluster.Programs) machine.Kind {
	t.Helper()
	k, err := cluster.KindOf(os.Getenv(cluster.KindEnv), inside, p)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// after makes the cluster whole for the next scenario, or ends it.
func after(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	began := time.Now()
	err := c.Settle(context.Background(), limit)
	if err == nil && !t.Failed() {
		t.Logf("everything is as at the beginning after %.1f s more", time.Since(began).Seconds())
		return
	}
	shared = nil
	if err := errors.Join(err, c.Close()); err != nil {
		t.Error(err)
	}
}
