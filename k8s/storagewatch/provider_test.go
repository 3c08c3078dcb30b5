package storagewatch

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/storagefence"
)

const secret = "correct horse"

// server is the API of a storage whose tokens can be made invalid. The storage's key for a volume's first copy is a
// word that our glossary forbids; the decoder ignores its case.
type server struct {
	generation atomic.Int64
	logins     atomic.Int64
	nodes      atomic.Value // string
	volume     atomic.Value // string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v2/auth/login" {
		var body struct{ Username, Password string }
		if json.NewDecoder(r.Body).Decode(&body) != nil || r.Method != http.MethodPost || body.Username != "admin" || body.Password != secret {
			http.Error(w, "wrong "+body.Password, http.StatusUnauthorized)
			return
		}
		s.logins.Add(1)
		w.Header().Set("Authorization", "Bearer token-"+strings.Repeat("x", int(s.generation.Load())))
		return
	}
	if r.Header.Get("Authorization") != "Bearer token-"+strings.Repeat("x", int(s.generation.Load())) {
		http.Error(w, "", http.StatusUnauthorized)
		return
	}
	switch r.URL.Path {
	case "/v2/nodes":
		_, _ = w.Write([]byte(s.nodes.Load().(string)))
	case "/v2/namespaces/ns/volumes/vol":
		_, _ = w.Write([]byte(s.volume.Load().(string)))
	default:
		http.Error(w, "", http.StatusNotFound)
	}
}

func dial(t *testing.T, password string) (*HTTP, *server) {
	t.Helper()
	s := &server{}
	s.nodes.Store(`[{"name":"n1","health":"online","id":"1"},{"name":"n2","health":"offline"},{"name":"n3","health":"unknown"},{"name":"n4","health":"rebooting"}]`)
	s.volume.Store(`{"id":"vol","Master":{"health":"online"}}`)
	ts := httptest.NewServer(s)
	t.Cleanup(ts.Close)
	dir := t.TempDir()
	for name, text := range map[string]string{"username": "admin\n", "password": password + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h, err := NewHTTP(ts.URL+"/v2", dir, "")
	if err != nil {
		t.Fatal(err)
	}
	return h, s
}

func TestHTTP(t *testing.T) {
	h, s := dial(t, secret)
	nodes, err := h.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]storagefence.Health{"n1": storagefence.Healthy, "n2": storagefence.Unhealthy, "n3": storagefence.Unknown, "n4": storagefence.Unknown}
	for _, n := range nodes {
		if n.Health != want[n.Name] {
			t.Errorf("%s is %v", n.Name, n.Health)
		}
	}
	if len(nodes) != len(want) {
		t.Errorf("%v", nodes)
	}
	s.generation.Add(1) // the token has run out
	health, why, err := h.Volume(t.Context(), "ns/vol")
	if err != nil || health != storagefence.Healthy || why != "" || s.logins.Load() != 2 {
		t.Errorf("%v %q %v after %d logins", health, why, err, s.logins.Load())
	}
	s.volume.Store(`{"id":"vol","Master":{"health":"offline"}}`)
	if health, why, err = h.Volume(t.Context(), "ns/vol"); err != nil || health != storagefence.Unhealthy || !strings.Contains(why, "offline") {
		t.Errorf("%v %q %v", health, why, err)
	}
}

// A storage may list a node that has joined it again beside what it was: nobody knows which of them is meant.
func TestNodeListedTwice(t *testing.T) {
	h, s := dial(t, secret)
	s.nodes.Store(`[{"name":"n1","health":"offline"},{"name":"n1","health":"online"},{"name":"n2","health":"online"},{"name":"n2","health":"offline"},{"name":"n2","health":"offline"},{"name":"n3","health":"offline"},{"name":"n3","health":"offline"}]`)
	nodes, err := h.Nodes(t.Context())
	if err != nil || len(nodes) != 3 || nodes[0].Health != storagefence.Unknown || nodes[1].Health != storagefence.Unknown || nodes[2].Health != storagefence.Unhealthy {
		t.Errorf("%v %v", nodes, err)
	}
}

// The password is sent to the address that was given, whatever redirect the answer contains.
func TestRedirect(t *testing.T) {
	h, s := dial(t, secret)
	elsewhere := httptest.NewServer(s)
	defer elsewhere.Close()
	here := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/v2/auth/login", http.StatusTemporaryRedirect))
	defer here.Close()
	base, err := url.Parse(here.URL + "/v2")
	if err != nil {
		t.Fatal(err)
	}
	h.base = base
	if _, err := h.Nodes(t.Context()); err == nil || s.logins.Load() != 0 {
		t.Errorf("%v after %d logins elsewhere", err, s.logins.Load())
	}
}

// Only an answer about this volume that says "online" makes it healthy.
func TestVolumesThatAreNotHealthy(t *testing.T) {
	h, s := dial(t, secret)
	for _, text := range []string{"", "{", "null", "{}", `{"id":"other","Master":{"health":"online"}}`, `{"id":"vol"}`, `{"id":"vol","Master":{"health":"ONLINE"}}`, `[]`} {
		s.volume.Store(text)
		if health, why, err := h.Volume(t.Context(), "ns/vol"); health == storagefence.Healthy || err == nil && why == "" {
			t.Errorf("%s: %v %q %v", text, health, why, err)
		}
	}
	s.volume.Store(`{"id":"vol","Master":{"health":"online"}}`)
	for _, handle := range []string{"", "vol", "ns/", "/vol", "ns/../vol", "../vol", "ns/..", "ns/vol/x", "ns/gone"} {
		if health, why, err := h.Volume(t.Context(), handle); health == storagefence.Healthy || err == nil && why == "" {
			t.Errorf("%s: %v %q %v", handle, health, why, err)
		}
	}
}

// A list that cannot be read is an error and no list; an error has no secret in it.
func TestNodesThatCannotBeRead(t *testing.T) {
	h, s := dial(t, secret)
	for _, text := range []string{"", "{}", `[{"health":"offline"}]`, `[{"name":`, `"` + secret + `"`} {
		s.nodes.Store(text)
		if nodes, err := h.Nodes(t.Context()); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v %v", text, nodes, err)
		}
	}
	h, _ = dial(t, "wrong "+secret)
	if _, err := h.Nodes(t.Context()); err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "login") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if _, err := h.Nodes(ctx); err == nil {
		t.Error("it did not end with its context")
	}
	for _, base := range []string{"", "storage", "ftp://storage/v2", "https://"} {
		if _, err := NewHTTP(base, "", ""); err == nil {
			t.Errorf("%q is taken for a URL", base)
		}
	}
}

// Guard: a storage whose certificate is signed by another CA than before is believed as soon as the file has that CA,
// and a file that is just being written takes nothing away.
func TestCertificatesThatAreRenewed(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	put := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(ca, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nodes := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`[{"name":"n1","health":"online"}]`))
	})
	ts := httptest.NewTLSServer(nodes)
	defer ts.Close()
	right := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ts.Certificate().Raw})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	other := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if _, err := NewHTTP(ts.URL, "", ca); err == nil {
		t.Error("it starts without the certificates that it is to check with")
	}
	put(other)
	h, err := NewHTTP(ts.URL, "", ca)
	if err != nil {
		t.Fatal(err)
	}
	for _, now := range []struct {
		name string
		text []byte
		ok   bool
	}{
		{"of another CA", other, false}, {"of both", append(bytes.Clone(other), right...), true}, {"empty", nil, true}, {"half of it", right[:len(right)/2], true},
		{"of another CA again", other, false}, {"the right one", right, true},
	} {
		put(now.text)
		if got, err := h.Nodes(t.Context()); (err == nil) != now.ok || now.ok && len(got) != 1 {
			t.Errorf("%s: %v, %v", now.name, got, err)
		}
	}
}
