package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// These are the files of the directory that writeKeys creates.
const (
	caFile         = "ca.crt"
	serverCertFile = "server.crt"
	serverKeyFile  = "server.key"
	clientCertFile = "kubelet-client.crt"
	clientKeyFile  = "kubelet-client.key"
	accountKeyFile = "service-accounts.key"
	tokensFile     = "tokens.csv"
	auditFile      = "audit-policy.yaml"
)

// auditPolicy logs every request except those of the server itself: once when it arrives and once when it is answered.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  users: ["system:apiserver"]
- level: Metadata
`

// keys contains the keys by which clients identify the server, and the token by which the server identifies the
// administrator.
type keys struct {
	ca    []byte // PEM
	admin string // bearer token
}

// writeKeys creates a certificate authority, lets it sign one certificate, for loopback, and then discards it. If there
// are nodes, the certificate is also valid for the addresses at which they reach the server, and there is a second
// certificate, by which their kubelets know the server.
func writeKeys(dir string, nodes *Nodes) (*keys, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "control plane of a test"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(7 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	signed := func(subject pkix.Name, usage x509.ExtKeyUsage, addresses []net.IP) (cert, key []byte, err error) {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, nil, err
		}
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: big.NewInt(now.UnixNano() + int64(usage)), Subject: subject, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
			IPAddresses: addresses, DNSNames: []string{"localhost", "kubernetes.default.svc"},
		}, ca, private.Public(), caKey)
		if err != nil {
			return nil, nil, err
		}
		key, err = keyPEM(private)
		return certPEM(der), key, err
	}
	serverCert, serverKey, err := signed(pkix.Name{CommonName: "kube-apiserver"}, x509.ExtKeyUsageServerAuth, append(nodes.addresses(), net.IPv4(127, 0, 0, 1)))
	if err != nil {
		return nil, err
	}
	clientCert, clientKey, err := signed(pkix.Name{CommonName: "kube-apiserver", Organization: []string{"system:masters"}}, x509.ExtKeyUsageClientAuth, nil)
	if err != nil {
		return nil, err
	}
	accountKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	accountPEM, err := keyPEM(accountKey)
	if err != nil {
		return nil, err
	}
	k := &keys{ca: certPEM(caDER), admin: rand.Text()}
	for name, text := range map[string][]byte{
		caFile: k.ca, serverCertFile: serverCert, serverKeyFile: serverKey, accountKeyFile: accountPEM,
		clientCertFile: clientCert, clientKeyFile: clientKey,
		tokensFile: fmt.Appendf(nodes.tokens(), "%s,admin,admin,system:masters\n", k.admin), auditFile: []byte(auditPolicy),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
