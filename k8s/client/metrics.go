package client

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts requests to the API server.
type Metrics struct {
	requests *prometheus.CounterVec
}

func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "fencing_agent", Name: "kube_requests_total",
		Help: "Requests to the Kubernetes API by verb (get, list, watch, create, update, patch, delete), resource, and status code; code is error if no answer came.",
	}, []string{"verb", "resource", "code"})}
	reg.MustRegister(m.requests)
	return m
}

func (m *Metrics) count(next http.RoundTripper) http.RoundTripper { return &counting{m, next} }

type counting struct {
	metrics *Metrics
	next    http.RoundTripper
}

func (c *counting) RoundTrip(req *http.Request) (*http.Response, error) {
	verb, resource := Describe(req)
	resp, err := c.next.RoundTrip(req)
	code := "error"
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
	}
	c.metrics.requests.WithLabelValues(verb, resource, code).Inc()
	return resp, err
}

// WrappedRoundTripper lets client-go see through to the transport.
func (c *counting) WrappedRoundTripper() http.RoundTripper { return c.next }

// Describe names what a request does as RBAC does: by verb and resource. If the path names no resource, its first
// element is used instead.
func Describe(req *http.Request) (verb, resource string) {
	// A path is /api/v1/... or /apis/GROUP/VERSION/..., then [namespaces/NS/]RESOURCE[/NAME[/SUB]].
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	rest := parts
	switch {
	case parts[0] == "api" && len(parts) > 2:
		rest = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		rest = parts[3:]
	default:
		return strings.ToLower(req.Method), parts[0]
	}
	if rest[0] == "namespaces" && len(rest) > 2 {
		rest = rest[2:]
	}
	resource = rest[0]
	if len(rest) > 2 {
		resource += "/" + rest[2]
	}
	switch req.Method {
	case http.MethodGet:
		switch {
		case req.URL.Query().Get("watch") != "":
			verb = "watch"
		case len(rest) == 1:
			verb = "list"
		default:
			verb = "get"
		}
	case http.MethodPost:
		verb = "create"
	case http.MethodPut:
		verb = "update"
	default:
		verb = strings.ToLower(req.Method)
	}
	return verb, resource
}
