package kube

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

const (
	// binaryEnv names the variable with the control plane's program, if it is not the one of make test-kube.
	binaryEnv = "FENCING_KUBETEST"
	// patience bounds the waits of these tests. It is much longer than anything takes, because machines may be busy.
	patience = 3 * time.Minute
)

// shared is the control plane of all tests.
var shared struct {
	start sync.Once
	plane *controlplane.ControlPlane
	dir   string
	err   error
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if p := shared.plane; p != nil {
		if err := p.Ended(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		if err := p.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	switch {
	case shared.dir == "":
	case code == 0:
		_ = os.RemoveAll(shared.dir)
	default:
		fmt.Fprintln(os.Stderr, "logs of the control plane are in", shared.dir)
	}
	os.Exit(code)
}

// kubetest returns the path of the control plane's program.
func kubetest() (string, error) {
	path := os.Getenv(binaryEnv)
	if path == "" {
		path = "../../bin/kubetest"
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", fmt.Errorf("control plane: %w: run make test-kube, or name the program in %s", err, binaryEnv)
	}
	return path, nil
}

func startShared() {
	binary, err := kubetest()
	if err != nil {
		shared.err = err
		return
	}
	if shared.dir, shared.err = os.MkdirTemp("", "fencing-kube-"); shared.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	began := time.Now()
	shared.plane, shared.err = controlplane.Start(ctx, controlplane.Config{Binary: binary, Dir: shared.dir})
	fmt.Printf("control plane ready after %v\n", time.Since(began).Round(100*time.Millisecond))
}

// plane returns the control plane that all tests share, with its API server running.
func plane(t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	shared.start.Do(startShared)
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	t.Cleanup(func() { // for the next test, whatever this one did
		if err := errors.Join(shared.plane.ThawEtcd(), shared.plane.ThawServer()); err != nil {
			t.Error(err)
		}
		serverUp(t, shared.plane)
	})
	return shared.plane
}

// serverUp starts the API server if it does not run.
func serverUp(t *testing.T, p *controlplane.ControlPlane) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.StartServer(ctx); err != nil {
		t.Fatal(err)
	}
}

// newProxy returns a proxy that exists until the test ends.
func newProxy(t *testing.T, p *controlplane.ControlPlane) *controlplane.Proxy {
	t.Helper()
	x, err := controlplane.NewProxy(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// await waits until the condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
