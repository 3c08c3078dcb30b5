package members

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/k8s/memberbook"
)

// stream follows one replica of the controller until the stream ends. answered reports whether it has sent something.
func (c *controllerSource) stream(ctx context.Context, again <-chan struct{}, trouble func(string), found func(List)) (answered bool, err error) {
	if _, err := c.findOwn(); err != nil && c.own == nil {
		return false, err
	}
	// Each stream has its own connection: only a new one may lead to another replica.
	conn, err := c.dial()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	updates, ended := make(chan *fencingv1.MembersUpdate), make(chan error, 1)
	done := make(chan struct{})
	defer func() {
		cancel()
		_ = conn.Close()
		<-done
	}()
	call, err := fencingv1.NewFencingMembersClient(conn).Follow(ctx)
	if err == nil {
		err = call.Send(c.report())
	}
	if err != nil {
		close(done)
		return false, err
	}
	go func() {
		defer close(done)
		for {
			u, err := call.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case updates <- u:
			case <-ctx.Done():
				return
			}
		}
	}()
	look := time.NewTicker(controllerLook)
	defer look.Stop()
	heard := c.clock()
	for {
		select {
		case <-ctx.Done():
			return answered, ctx.Err()
		case err := <-ended:
			return answered, err
		case <-again: // nothing to do: the server sends changes by itself
		case u := <-updates:
			answered, heard = true, c.clock()
			c.metrics.connected(true)
			c.updated(u, trouble, found)
		case <-look.C:
			if c.clock().Sub(heard) >= controllerSilence {
				return answered, errSilent
			}
			if c.tick(trouble, found) {
				if err := call.Send(c.report()); err != nil {
					return answered, err
				}
			}
		}
	}
}

func (c *controllerSource) report() *fencingv1.MembersReport {
	have := uint64(0)
	if r := c.present.Load(); r != nil {
		have = r.Epoch
	}
	uid := ""
	if c.nodeUID != nil {
		uid = c.nodeUID()
	}
	return &fencingv1.MembersReport{
		NodeUid: uid,
		Group:   c.cfg.NodeGroup, Addresses: maps.Clone(c.own), Annotations: c.cfg.Kubernetes.DisableAnnotations, HaveEpoch: have, Version: c.version,
	}
}

// dial prepares a connection that trusts only the CA of the configuration.
func (c *controllerSource) dial() (*grpc.ClientConn, error) {
	at := &c.cfg.Members.Controller
	ca, err := os.ReadFile(at.CAFile())
	if err != nil {
		return nil, fmt.Errorf("members.controller.credentials: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("members.controller.credentials: %s has no certificate", at.CAFile())
	}
	name := at.ServerName
	if name == "" {
		if name, _, err = net.SplitHostPort(at.Address); err != nil {
			return nil, fmt.Errorf("members.controller.address: %w", err)
		}
	}
	options := []grpc.DialOption{
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS13})),
		grpc.WithPerRPCCredentials(tokenFile(at.TokenFile())),
	}
	if c.connect != nil {
		options = append(options, grpc.WithContextDialer(c.connect))
	}
	return grpc.NewClient("passthrough:///"+at.Address, options...)
}

// tokenFile is a token that the kubelet renews.
type tokenFile string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (t tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	text, err := os.ReadFile(string(t))
	if err != nil {
		return nil, fmt.Errorf("members.controller.credentials: %w", err)
	}
	return map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(text))}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: only the controller sees the token.
func (tokenFile) RequireTransportSecurity() bool { return true }

// controllerMetrics are the metrics of the controller as a source. nil counts nothing.
type controllerMetrics struct {
	up       prometheus.Gauge
	taken    prometheus.Gauge
	refusals *prometheus.CounterVec
}

func newControllerMetrics(reg prometheus.Registerer) *controllerMetrics {
	if reg == nil {
		return nil
	}
	m := &controllerMetrics{
		up: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "fencing_agent", Name: "members_controller_connected",
			Help: "1 while fencing-controller is followed (members.source: controller).",
		}),
		taken: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "fencing_agent", Name: "members_controller_epoch",
			Help: "Epoch of the newest list that was taken from fencing-controller.",
		}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "fencing_agent", Name: "members_controller_refused_total",
			Help: "Lists of fencing-controller that this agent did not believe, by reason: group, invalid, address, stale, differs, future, shrunken, wait, unlisted.",
		}, []string{"reason"}),
	}
	reg.MustRegister(m.up, m.taken, m.refusals)
	return m
}

func (m *controllerMetrics) connected(yes bool) {
	if m == nil {
		return
	}
	m.up.Set(map[bool]float64{true: 1}[yes])
}

func (m *controllerMetrics) epoch(e uint64) {
	if m != nil {
		m.taken.Set(float64(e))
	}
}

func (m *controllerMetrics) refused(why memberbook.Refusal) {
	if m != nil {
		m.refusals.WithLabelValues(string(why)).Inc()
	}
}
