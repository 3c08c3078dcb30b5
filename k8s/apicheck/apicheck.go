package apicheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/client"
)

// longestBody is the number of bytes of an answer that are read, so that its connection can be used again.
const longestBody = 64 << 10

// Config is what a [Checker] needs. Logger and Rand may be nil.
type Config struct {
	Kubeconfig string         // path; empty: the pod's service account
	Client     *client.Client // nil: New reads Kubeconfig, and returns an error if it cannot
	Pace       *Pace          // when to ask
	Timeout    time.Duration  // of one check; at most the shorter interval of Pace
	Logger     *slog.Logger
	Clock      boottime.Clock
	// OnResult gets the result of every check. It runs on Run's goroutine, so it delays the next check.
	OnResult func(reachable bool, at boottime.Instant)
	// Rand spreads the checks of many nodes over time. It is used by Run's goroutine only.
	Rand *rand.Rand
}

// Checker checks one API server.
type Checker struct {
	config Config
	log    *slog.Logger
	client http.Client
	base   *url.URL
}

// New reads the kubeconfig, or the service account of the pod. It does not connect.
func New(c Config) (*Checker, error) {
	if c.Clock == nil || c.OnResult == nil || c.Pace == nil {
		return nil, errors.New("api check: clock, pace and result function are mandatory")
	}
	if c.Timeout <= 0 || c.Timeout > c.Pace.often {
		return nil, fmt.Errorf("api check: timeout %v with interval %v: the timeout must be positive and not exceed the interval", c.Timeout, c.Pace.often)
	}
	if c.Client != nil && c.Client.Ready() != nil { // this includes a file that the kubeconfig names and that cannot be used yet
		return newChecker(c, c.Client.Own())
	}
	rc, err := client.Load(c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	return newChecker(c, rc)
}

func newChecker(c Config, rc *rest.Config) (*Checker, error) {
	k := &Checker{config: c, log: c.Logger}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	if k.config.Rand == nil {
		k.config.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	rc = rest.CopyConfig(rc)
	rc.UserAgent = "fencing-agent"
	rc.NextProtos = []string{"http/1.1"}
	hc, err := rest.HTTPClientFor(rc)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: client for %s: %w", rc.Host, err)
	}
	k.client = *hc // it may be http.DefaultClient, which must not be changed
	k.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if k.base, _, err = rest.DefaultServerUrlFor(rc); err != nil {
		return nil, fmt.Errorf("kubernetes: server address %q: %w", rc.Host, err)
	}
	if k.base.Scheme != "https" || rc.Insecure {
		k.log.Warn("the check of the API server cannot distinguish the server from another machine that answers: use https and certificate-authority in the kubeconfig",
			"server", k.base.String())
	}
	return k, nil
}

// Run makes a check at once, and then at the pace until ctx ends.
func (k *Checker) Run(ctx context.Context) {
	defer k.drop()
	var reachable, known bool
	for {
		began, at := time.Now(), k.config.Clock()
		err := k.check(ctx)
		if ctx.Err() != nil {
			return // an aborted check has no result
		}
		if now := err == nil; !known || now != reachable {
			reachable, known = now, true
			k.logChange(err)
		}
		k.config.OnResult(reachable, at)
		if k.config.Pace.Wait(ctx, began, k.config.Rand); ctx.Err() != nil {
			return
		}
	}
}

func (k *Checker) logChange(err error) {
	if err != nil {
		k.log.Warn("API server is not reachable", "server", k.base.String(), "err", err)
		return
	}
	k.log.Info("API server is reachable", "server", k.base.String())
}

// check returns nil if the API server is reachable.
func (k *Checker) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.config.Timeout)
	defer cancel()
	path := "readyz"
	status, err := k.get(ctx, path)
	if err == nil && (status == http.StatusForbidden || status == http.StatusNotFound) {
		path = "livez"
		status, err = k.get(ctx, path)
	}
	if err == nil {
		// http.Client may still return an answer that arrived while the timeout closed the connection.
		err = ctx.Err()
	}
	if err == nil && !says(status) {
		err = fmt.Errorf("GET %s: status %d %s", k.base.JoinPath(path), status, http.StatusText(status))
	}
	if err != nil {
		k.drop()
	}
	return err
}

// says reports whether a status comes from a working API server; see the package doc.
func says(status int) bool {
	return status >= 200 && status < 300 || status >= 400 && status < 500
}

func (k *Checker) get(ctx context.Context, path string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.base.JoinPath(path).String(), nil)
	if err != nil {
		return 0, err
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	// The status is the answer. The body is only read so that the connection can be used again.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, longestBody))
	return resp.StatusCode, nil
}

// drop closes the connection. http.Client's own method does not reach through the round trippers that client-go wraps
// around the transport.
func (k *Checker) drop() { utilnet.CloseIdleConnectionsFor(k.client.Transport) }
