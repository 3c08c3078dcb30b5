package client

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/fencing-agent/fencing-agent/boottime"
)

const (
	// QPS is the number of requests per second that all clients of a node may send over a longer time. An agent in a
	// settled cluster sends a few a minute.
	QPS = 5
	// Burst is the number of requests that may be sent at once.
	Burst = 10

	userAgent     = "fencing-agent"
	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	protobuf      = "application/vnd.kubernetes.protobuf"
)

// Coordination is the API group of Leases.
var Coordination = coordinationv1.SchemeGroupVersion

// Client creates REST clients that share one configuration.
type Client struct {
	rc        *rest.Config
	http      *http.Client
	codecs    serializer.CodecFactory
	namespace string
	late      *late // nil: the configuration is known

	mu      sync.Mutex
	clients map[schema.GroupVersion]rest.Interface // guarded by mu
}

// New reads the kubeconfig at path; an empty path means the service account of the pod. It does not connect. metrics
// may be nil.
func New(kubeconfig string, metrics *Metrics) (*Client, error) {
	rc, err := Load(kubeconfig)
	if err != nil {
		return nil, err
	}
	c, err := NewFor(rc, metrics)
	if err != nil {
		return nil, err
	}
	c.namespace = namespaceOf(kubeconfig)
	return c, nil
}

// Load reads the kubeconfig at path, or the service account of the pod if path is empty.
func Load(path string) (*rest.Config, error) {
	if path == "" {
		rc, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("kubernetes: this is not a pod and no kubeconfig is given: set kubernetes.kubeconfig (the agent), kubeconfig (fencing-controller) or --kubeconfig")
		}
		if err != nil {
			return nil, fmt.Errorf("kubernetes: service account of the pod: %w: set automountServiceAccountToken, or give a kubeconfig", err)
		}
		return rc, nil
	}
	c := deferred(path)
	raw, err := c.RawConfig()
	if err == nil && len(raw.Clusters) == 0 {
		err = clientcmd.ErrEmptyConfig // otherwise client-go would use the service account of the pod instead
	}
	var rc *rest.Config
	if err == nil {
		rc, err = c.ClientConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return rc, nil
}

func deferred(path string) clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: path}, &clientcmd.ConfigOverrides{})
}

// namespaceOf returns the namespace of the pod, or of the kubeconfig's context.
func namespaceOf(kubeconfig string) string {
	if kubeconfig != "" {
		if ns, _, err := deferred(kubeconfig).Namespace(); err == nil {
			return ns
		}
		return metav1.NamespaceDefault
	}
	if text, err := os.ReadFile(namespaceFile); err == nil && len(text) > 0 {
		return strings.TrimSpace(string(text))
	}
	return metav1.NamespaceDefault
}

// NewFor is like New for a configuration that has been read already. Its namespace is "default".
func NewFor(rc *rest.Config, metrics *Metrics) (*Client, error) {
	rc = rest.CopyConfig(rc)
	rc.UserAgent = userAgent
	rc.ContentType, rc.AcceptContentTypes = protobuf, protobuf+","+runtime.ContentTypeJSON
	if metrics != nil {
		rc.Wrap(metrics.count)
	}
	return newClient(rc, metav1.NamespaceDefault)
}

// newClient uses the configuration unchanged, except for the rate limit.
func newClient(rc *rest.Config, namespace string) (*Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{addCore, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("kubernetes: types of the API: %w", err)
		}
	}
	rc.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(QPS, Burst)
	client, err := rest.HTTPClientFor(rc)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: client for %s: %w", rc.Host, err)
	}
	return &Client{
		rc: rc, http: client, codecs: serializer.NewCodecFactory(scheme), namespace: namespace,
		clients: map[schema.GroupVersion]rest.Interface{},
	}, nil
}

// Apart returns a client with connections of its own, each of which carries one request at a time. If a request times
// out, its connection is not used again; requests on other connections do not change that.
func (c *Client) Apart() (*Client, error) {
	rc := rest.CopyConfig(c.rc)
	if c.late == nil {
		rc.NextProtos = oneAtATime
	} else {
		rc.Transport = c.late.config(oneAtATime).Transport
	}
	apart, err := newClient(rc, c.namespace)
	if err == nil {
		apart.late = c.late
	}
	return apart, err
}

// Ready returns why a client that was created by [Late] cannot send a request yet.
func (c *Client) Ready() error {
	if c.late == nil {
		return nil
	}
	_, err := c.late.read()
	return err
}

// Namespace returns the namespace of the agent's own objects: that of its pod, or of the kubeconfig's context as soon
// as the kubeconfig can be read ([Client.Ready]).
func (c *Client) Namespace() string {
	if c.late == nil {
		return c.namespace
	}
	c.late.mu.Lock()
	defer c.late.mu.Unlock()
	return c.late.namespace
}

// Host returns the address of the API server, for logs.
func (c *Client) Host() string {
	if c.late == nil {
		return c.rc.Host
	}
	rc, err := c.late.read()
	if err != nil {
		return "the server in " + c.late.path
	}
	return rc.Host
}

// For returns the client of one API group, [Core] or [Coordination].
func (c *Client) For(group schema.GroupVersion) (rest.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.clients[group]; r != nil {
		return r, nil
	}
	rc := rest.CopyConfig(c.rc)
	rc.GroupVersion, rc.APIPath = &group, "/apis"
	if group.Group == "" {
		rc.APIPath = "/api"
	}
	rc.NegotiatedSerializer = c.codecs.WithoutConversion()
	r, err := rest.RESTClientForConfigAndClient(rc, c.http)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: client for %s: %w", group, err)
	}
	c.clients[group] = r
	return r, nil
}

// RetryAfter returns the time for which the server has asked the client to wait, if err is such an answer.
func RetryAfter(err error) (time.Duration, bool) {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok || seconds <= 0 {
		return 0, false
	}
	return time.Duration(seconds) * time.Second, true
}

// Backoff is [boottime.Backoff] that respects the time which the server asks for.
type Backoff boottime.Backoff

// Next returns the pause after a failure with err.
func (b *Backoff) Next(err error) time.Duration {
	d := (*boottime.Backoff)(b).Next()
	if asked, ok := RetryAfter(err); ok {
		// The pause is never shorter than the server asked for. Jitter keeps the clients from returning at the same
		// moment.
		d = asked + boottime.Jitter(b.Rand, max(b.First, asked/4))
	}
	return d
}

// Reset makes the next pause start from First again.
func (b *Backoff) Reset() { (*boottime.Backoff)(b).Reset() }
