package members

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
)

// certificate creates a certificate with this number and its key, in PEM.
func certificate(t *testing.T, number int64, from, to time.Duration) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(number), DNSNames: []string{"c"}, NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
}

// Guard: whatever happens to the files of the certificate during a renewal, agents that connect get a certificate that
// can be used, and the log says once what is wrong.
func TestCertificateThatIsRenewed(t *testing.T) {
	dir, log := t.TempDir(), new(bytes.Buffer)
	put := func(cert, key []byte) {
		t.Helper()
		for name, text := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(Options(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), slog.New(slog.NewTextHandler(log, nil)))...)
	go func() { _ = srv.Serve(l) }()
	defer srv.Stop()
	if !strings.Contains(log.String(), "no agent can follow") {
		t.Errorf("said at the start: %q", log.String())
	}
	shown := func() int64 {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // only the certificate that is shown matters
		if err != nil {
			return 0
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	one, oneKey := certificate(t, 1, -time.Hour, time.Hour)
	two, twoKey := certificate(t, 2, -time.Hour, time.Hour)
	old, oldKey := certificate(t, 3, -2*time.Hour, -time.Hour)
	early, earlyKey := certificate(t, 4, time.Hour, 2*time.Hour)
	for _, c := range []struct {
		name      string
		cert, key []byte
		shown     int64
		said      string
	}{
		{"no certificate yet", nil, nil, 0, "no agent can follow"},
		{"the first one", one, oneKey, 1, ""},
		{"the next one is being written", two[:len(two)/2], oneKey, 1, "the one that was read before stays in use"},
		{"its key is not there yet", two, oneKey, 1, "does not match"},
		{"the file is empty", nil, twoKey, 1, "the one that was read before stays in use"},
		{"the chain is in the wrong order", append(bytes.Clone(one), two...), twoKey, 1, "does not match"},
		{"the next one", two, twoKey, 2, ""},
		{"one that has expired", old, oldKey, 3, "it expired at"},
		{"one that is not valid yet", early, earlyKey, 4, "it is not valid before"},
		{"one that is", append(bytes.Clone(two), one...), twoKey, 2, ""},
	} {
		put(c.cert, c.key)
		log.Reset()
		if got, again := shown(), shown(); got != c.shown || again != got {
			t.Errorf("%s: certificate %d and %d are shown, want %d", c.name, got, again, c.shown)
		}
		if n := strings.Count(log.String(), "level=WARN"); n > 1 || c.said != "" && n != 1 && c.shown != 0 || !strings.Contains(log.String(), c.said) && c.shown != 0 || c.said == "" && n > 0 {
			t.Errorf("%s: %q, want %q once", c.name, log.String(), c.said)
		}
	}
}
