package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// attempts is the number of times that the start tries other ports, because another process may take a chosen port
	// first.
	attempts = 5
	// readyPoll is the pause between two checks whether a starting program answers.
	readyPoll = 50 * time.Millisecond
)

// errPortTaken means that another attempt with other ports may succeed.
var errPortTaken = errors.New("port taken")

// Config contains what [Start] needs.
type Config struct {
	Binary string   // the built program of integration/kube/cmd/kubetest
	Dir    string   // an empty folder, in which all files are created
	Flags  []string // more flags of kube-apiserver, such as --watch-cache=false
	Nodes  *Nodes   // nil: there are none
}

// ControlPlane is an etcd and a kube-apiserver and, with [Nodes], also the rest of a control plane.
type ControlPlane struct {
	config    Config
	keys      *keys
	etcdURL   string
	port      int
	readiness *http.Client

	mu          sync.Mutex // serializes starts and stops; guards the fields below
	etcd        *process
	server      *process // nil: stopped
	controllers []*process
}

// Start runs the control plane and returns when the API server is ready. The context applies only to the start.
func Start(ctx context.Context, c Config) (*ControlPlane, error) {
	for path, what := range map[*string]string{&c.Binary: "binary", &c.Dir: "folder"} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return nil, fmt.Errorf("control plane: %s %q: %w", what, *path, err)
		}
		if _, err := os.Stat(abs); err != nil {
			return nil, fmt.Errorf("control plane: %s: %w", what, err)
		}
		*path = abs
	}
	k, err := writeKeys(c.Dir, c.Nodes)
	if err != nil {
		return nil, fmt.Errorf("control plane: keys: %w", err)
	}
	p := &ControlPlane{config: c, keys: k}
	if p.readiness, err = rest.HTTPClientFor(p.Admin()); err != nil {
		return nil, fmt.Errorf("control plane: client: %w", err)
	}
	for range attempts {
		if err = p.startAll(ctx); err == nil {
			return p, nil
		}
		if err = errors.Join(err, p.Close()); !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, fmt.Errorf("control plane: %w", err)
}

func (p *ControlPlane) startAll(ctx context.Context) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	p.etcdURL, p.port = fmt.Sprintf("http://127.0.0.1:%d", ports[0]), ports[2]
	if n := p.config.Nodes; n != nil {
		p.port = n.Port
	}
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	data, err := os.MkdirTemp(p.config.Dir, "etcd-")
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.etcd, err = start(p.config.Binary, p.config.Dir, "etcd", "--name=test", "--data-dir="+data, "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+p.etcdURL, "--advertise-client-urls="+p.etcdURL,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL, "--initial-cluster=test="+peerURL)
	p.mu.Unlock()
	if err != nil {
		return err
	}
	if err := p.await(ctx, p.etcd, http.DefaultClient, p.etcdURL+"/health"); err != nil {
		return err
	}
	if err := p.StartServer(ctx); err != nil || p.config.Nodes == nil {
		return err
	}
	return p.startControllers()
}

// StartServer starts the API server after [ControlPlane.StopServer] or [ControlPlane.KillServer], with the same address
// and data, and returns when it is ready. If the server runs, it does nothing.
func (p *ControlPlane) StartServer(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		return nil
	}
	file := func(name string) string { return filepath.Join(p.config.Dir, name) }
	args := []string{
		"--etcd-servers=" + p.etcdURL, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.port),
		"--cert-dir=" + file("certs"), "--tls-cert-file=" + file(serverCertFile), "--tls-private-key-file=" + file(serverKeyFile),
		"--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + file(accountKeyFile), "--service-account-signing-key-file=" + file(accountKeyFile),
		"--token-auth-file=" + file(tokensFile), "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		// Without this setting a stop waits a minute for watches that no client ends.
		"--shutdown-watch-termination-grace-period=1s",
		"--audit-policy-file=" + file(auditFile), "--audit-log-path=" + file(auditLog), "--allow-privileged=true",
	}
	args = append(args, p.config.Nodes.flags(p.config.Dir)...)
	server, err := start(p.config.Binary, p.config.Dir, "kube-apiserver", append(args, p.config.Flags...)...)
	if err != nil {
		return err
	}
	if err := p.await(ctx, server, p.readiness, p.URL()+"/readyz"); err != nil {
		return errors.Join(err, server.kill())
	}
	p.server = server
	return nil
}

// await returns when the address answers 200. It returns an error if the program ends before that.
func (p *ControlPlane) await(ctx context.Context, of *process, client *http.Client, url string) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		if ready(ctx, client, url) {
			return nil
		}
		select {
		case <-tick.C:
		case <-of.done:
			err := of.ended()
			if portTaken(of) {
				err = errors.Join(err, errPortTaken)
			}
			return err
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w%s", of.name, context.Cause(ctx), of.lastLines())
		}
	}
}

func ready(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection can be used again
	return resp.StatusCode == http.StatusOK
}

// StopServer ends the API server in order, as a restart of its pod does: the server reports that it is no longer ready,
// ends its watches, and then ends.
func (p *ControlPlane) StopServer(ctx context.Context) error {
	return p.endServer(func(s *process) error { return s.stop(ctx) })
}

// KillServer ends the API server at once, like a crash.
func (p *ControlPlane) KillServer() error { return p.endServer((*process).kill) }

func (p *ControlPlane) endServer(end func(*process) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return nil
	}
	defer func() { p.server = nil }()
	return end(p.server)
}

// FreezeEtcd stops etcd with SIGSTOP: the API server continues without its data, until [ControlPlane.ThawEtcd].
func (p *ControlPlane) FreezeEtcd() error { return p.etcd.signal(syscall.SIGSTOP) }

// ThawEtcd continues etcd.
func (p *ControlPlane) ThawEtcd() error { return p.etcd.signal(syscall.SIGCONT) }

// FreezeServer stops the API server with SIGSTOP: the kernel accepts connections, and nobody answers, until
// [ControlPlane.ThawServer].
func (p *ControlPlane) FreezeServer() error { return p.signalServer(syscall.SIGSTOP) }

// ThawServer continues the API server. If the server was ended, it does nothing.
func (p *ControlPlane) ThawServer() error { return p.signalServer(syscall.SIGCONT) }

func (p *ControlPlane) signalServer(sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return nil
	}
	return p.server.signal(sig)
}

// Ended returns nil while all programs run or were stopped on purpose. Otherwise its error names the program that
// ended, and how.
func (p *ControlPlane) Ended() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, of := range append([]*process{p.etcd, p.server}, p.controllers...) {
		if of != nil {
			errs = append(errs, of.ended())
		}
	}
	return errors.Join(errs...)
}

// URL returns the address of the API server, which is the same in all its runs.
func (p *ControlPlane) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", p.port) }

// Dir returns the folder with logs and data.
func (p *ControlPlane) Dir() string { return p.config.Dir }

// Close stops all programs. It may be called twice.
func (p *ControlPlane) Close() error {
	err := p.KillServer() // nobody needs its orderly end, which takes seconds
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.controllers {
		err = errors.Join(err, c.kill())
	}
	p.controllers = nil
	if p.etcd != nil {
		err = errors.Join(err, p.etcd.kill())
		p.etcd = nil
	}
	return err
}

// freePorts finds ports on the loopback interface below those that the kernel assigns by itself.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range 100 * n {
		port := 10000 + rand.IntN(20000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		// All are held until the last is found, so that none is chosen twice.
		defer l.Close()
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("find %d free ports of 127.0.0.1: found only %d", n, len(ports))
}
