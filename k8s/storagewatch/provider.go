package storagewatch

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fencing-agent/fencing-agent/k8s/storagefence"
)

// Provider is a storage, as far as this package needs it. Its methods are called from several goroutines, and return
// when their context ends.
type Provider interface {
	// Nodes returns all nodes of the storage, by the names of their Kubernetes Nodes.
	Nodes(ctx context.Context) ([]storagefence.Node, error)
	// Volume returns the health of the volume with this CSI handle, and the reason if it is not healthy.
	Volume(ctx context.Context, handle string) (storagefence.Health, string, error)
}

// OneNode is a [Provider] that can be asked about one node alone.
type OneNode interface {
	// Node returns what Nodes would return for this node.
	Node(ctx context.Context, name string) (storagefence.Node, error)
}

// mostBytes is the longest answer that is read: an answer about a thousand nodes is a tenth of it.
const mostBytes = 16 << 20

// HTTP is a storage with an API like that of StorageOS v2: POST auth/login, GET nodes, and GET
// namespaces/NAMESPACE/volumes/VOLUME, where NAMESPACE/VOLUME is the CSI handle.
type HTTP struct {
	base        *url.URL
	credentials string // a directory
	ca          string // a file; empty: the system's certificates

	mu     sync.Mutex
	token  string       // guarded by mu
	pem    string       // the content of ca that client uses; guarded by mu
	client *http.Client // guarded by mu
}

// NewHTTP creates a client of the API at base, such as https://storage.example:5705/v2. credentials is a directory with
// the files username and password, which are read at each login. ca is a file of certificates by which the server is
// verified, and is read before each request; empty: the system's certificates.
func NewHTTP(base, credentials, ca string) (*HTTP, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("%q is not the URL of an API: https://HOST:PORT/v2 is expected", base)
	}
	h := &HTTP{base: u, credentials: credentials, ca: ca}
	if _, err := h.trusting(); err != nil {
		return nil, err
	}
	return h, nil
}

// trusting returns a client that trusts the present certificates in the file, which may have been renewed.
//
// Invariant: if the file cannot be used, for example because it is just being written, the earlier certificates stay in
// use: then trusting returns both a client and an error.
func (h *HTTP) trusting() (*http.Client, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var text []byte
	var pool *x509.CertPool
	if h.ca != "" {
		var err error
		if text, err = os.ReadFile(h.ca); err == nil && (h.client == nil || string(text) != h.pem) {
			if pool = x509.NewCertPool(); !pool.AppendCertsFromPEM(text) {
				err = fmt.Errorf("%s has no certificate in PEM", h.ca)
			}
		}
		if err != nil {
			return h.client, fmt.Errorf("certificates of the storage: %w", err)
		}
	}
	if h.client != nil && pool == nil {
		return h.client, nil
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if pool != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	if h.client != nil {
		h.client.CloseIdleConnections()
	}
	// A login contains a password, so a redirect is not followed.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	h.pem, h.client = string(text), &http.Client{Transport: transport, CheckRedirect: stay}
	return h.client, nil
}

// Nodes implements [Provider]. If a node is listed twice with different healths, its health is unknown.
func (h *HTTP) Nodes(ctx context.Context) ([]storagefence.Node, error) {
	var list []struct{ Name, Health string }
	if err := h.get(ctx, &list, "nodes"); err != nil {
		return nil, fmt.Errorf("nodes of the storage: %w", err)
	}
	var out []storagefence.Node
	at := map[string]int{}
	for _, n := range list {
		if n.Name == "" {
			return nil, errors.New("nodes of the storage: one has no name")
		}
		health := healthOf(n.Health)
		if i, twice := at[n.Name]; !twice {
			at[n.Name] = len(out)
			out = append(out, storagefence.Node{Name: n.Name, Health: health})
		} else if out[i].Health != health {
			out[i].Health = storagefence.Unknown
		}
	}
	return out, nil
}

// healthOf maps the API's health. A health that the API or this program does not know is unknown.
func healthOf(word string) storagefence.Health {
	switch word {
	case "online":
		return storagefence.Healthy
	case "offline":
		return storagefence.Unhealthy
	}
	return storagefence.Unknown
}

func (h *HTTP) Volume(ctx context.Context, handle string) (storagefence.Health, string, error) {
	namespace, id, ok := strings.Cut(handle, "/")
	dots := func(s string) bool { return s == "." || s == ".." }
	if !ok || namespace == "" || id == "" || strings.Contains(id, "/") || dots(namespace) || dots(id) {
		return storagefence.Unknown, fmt.Sprintf("its handle %q is not NAMESPACE/VOLUME", handle), nil
	}
	var v struct {
		ID     string `json:"id"`
		Master struct{ Health string }
	}
	if err := h.get(ctx, &v, "namespaces", namespace, "volumes", id); err != nil {
		return storagefence.Unknown, "", fmt.Errorf("volume %s: %w", handle, err)
	}
	if v.ID != id {
		return storagefence.Unknown, "", fmt.Errorf("volume %s: the storage has answered for %q", handle, v.ID)
	}
	health := healthOf(v.Master.Health)
	if health == storagefence.Healthy {
		return health, "", nil
	}
	return health, fmt.Sprintf("the storage reports that its first copy is %q", v.Master.Health), nil
}

var errLogin = errors.New("the storage requires a login")

// get asks once, and once more after a login if the token is no longer valid.
func (h *HTTP) get(ctx context.Context, into any, path ...string) error {
	h.mu.Lock()
	token := h.token
	h.mu.Unlock()
	err := errLogin
	if token != "" || h.credentials == "" {
		err = h.ask(ctx, token, into, path)
	}
	if !errors.Is(err, errLogin) || h.credentials == "" {
		return err
	}
	if token, err = h.login(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	h.token = token
	h.mu.Unlock()
	return h.ask(ctx, token, into, path)
}

func (h *HTTP) ask(ctx context.Context, token string, into any, path []string) error {
	escaped := make([]string, len(path))
	for i := range path {
		escaped[i] = url.PathEscape(path[i])
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.base.JoinPath(escaped...).String(), nil)
	if err != nil {
		return err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	_, err = h.do(r, into)
	return err
}

func (h *HTTP) login(ctx context.Context) (string, error) {
	var body struct {
		Username string `json:"username"`
		Password string `json:"password"`
	}
	for name, at := range map[string]*string{"username": &body.Username, "password": &body.Password} {
		text, err := os.ReadFile(filepath.Join(h.credentials, name))
		if err != nil {
			return "", fmt.Errorf("credentials of the storage: %w", err)
		}
		*at = strings.TrimRight(string(text), "\r\n")
	}
	text, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.base.JoinPath("auth", "login").String(), bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	header, err := h.do(r, nil)
	if err != nil {
		return "", fmt.Errorf("login to the storage: %w", err)
	}
	token, ok := strings.CutPrefix(header.Get("Authorization"), "Bearer ")
	if !ok {
		return "", errors.New("login to the storage: the answer has no token")
	}
	return token, nil
}

// do only reports the status of a failed answer: bodies may contain secrets.
func (h *HTTP) do(r *http.Request, into any) (http.Header, error) {
	client, unread := h.trusting()
	if client == nil {
		return nil, unread
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, errors.Join(err, unread) // they may be the cause
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, errLogin
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("status %d of %s", resp.StatusCode, r.URL.Path)
	case into == nil:
		return resp.Header, nil
	}
	limited := &io.LimitedReader{R: resp.Body, N: mostBytes}
	if err := json.NewDecoder(limited).Decode(into); err != nil {
		return nil, fmt.Errorf("the answer to %s cannot be read: %w", r.URL.Path, err)
	}
	return resp.Header, nil
}
