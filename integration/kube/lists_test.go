package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

// followerConfig is the configuration of an agent whose list comes from fencing-controller.
const followerConfig = `cluster: prod
nodeName: %[1]s
nodeGroup: %[2]s
members:
  source: controller
  cacheFile: %[3]s/%[1]s.members.json
  controller: {address: "%[7]s", credentials: %[3]s/%[1]s.credentials, founders: [%[2]s-1, %[2]s-2, %[2]s-3]}
systemNetworks: [{name: node, at: %[4]s, port: %[5]d}]
watchdog: {driver: none, disableFile: %[3]s/%[1]s.disable}
api: {socket: %[3]s/%[1]s.sock}
http: {address: "%[4]s:%[6]d"}
`

// listsManifest returns what the controller's chart adds with members.enabled.
func listsManifest(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/controller/chart/templates/members.yaml")
	if err != nil {
		t.Fatal(err)
	}
	plain := regexp.MustCompile(`(?m)^\{\{.*\}\}\n?`).ReplaceAllString(string(text), "")
	plain = strings.ReplaceAll(plain, "{{ .Release.Namespace }}", controllerSpace)
	if strings.Contains(plain, "{{") {
		t.Fatalf("not plain YAML:\n%s", plain)
	}
	return plain
}

// certificate writes a self-signed certificate for a loopback address.
func certificate(t *testing.T, dir, address string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lists"}, IPAddresses: []net.IP{net.ParseIP(address)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// follower creates the next Node of the group, with an agent that follows a replica.
func (a *agents) follower(t *testing.T, replica string) *realAgent {
	t.Helper()
	a.made++
	name, address := fmt.Sprintf("%s-%d", a.name, a.made), fmt.Sprintf("%s%d", a.prefix, a.made)
	a.register(t, name, address)
	pod := a.newPod(t, a.set, name)
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{
		Audiences: []string{"fencing-controller"}, BoundObjectRef: &authentication.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	token, err := a.admin.CoreV1().ServiceAccounts(deployedSpace).CreateToken(t.Context(), deployedName, request, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := &realAgent{
		node: name, address: address, http: fmt.Sprintf("http://%s:%d", address, a.port+1), program: a.program,
		config: filepath.Join(a.work, name+".yaml"), log: filepath.Join(a.plane.Dir(), name+".log"),
	}
	ca, err := os.ReadFile(filepath.Join(a.work, "tls.crt"))
	folder := filepath.Join(a.work, name+".credentials")
	if err := errors.Join(err, os.MkdirAll(folder, 0o700)); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		r.config:                        fmt.Sprintf(followerConfig, name, a.name, a.work, address, a.port, a.port+1, replica),
		filepath.Join(folder, "ca.crt"): string(ca),
		filepath.Join(folder, "token"):  token.Status.Token,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a.group = append(a.group, r)
	return r
}

// quietEnv names the variable with the length of the quiet time in which the controller is watched, such as 1h.
const quietEnv = "FENCING_QUIET"

// quiet waits for the quiet time.
func (a *agents) quiet(t *testing.T) {
	t.Helper()
	d := 20 * time.Second
	if text := os.Getenv(quietEnv); text != "" {
		var err error
		if d, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	over := time.NewTimer(d)
	defer over.Stop()
	<-over.C
	t.Logf("a quiet time of %v", d)
}

// askedByController counts what all replicas have requested since a moment. Watches end and begin again by themselves.
func (a *agents) askedByController(t *testing.T, since time.Time) map[string]int {
	t.Helper()
	out := map[string]int{}
	requests, err := a.plane.Requests(func(r controlplane.Request) bool {
		return r.User.Name == "system:serviceaccount:"+controllerSpace+":"+controllerSpace && r.Received.After(since)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		if r.Verb != "watch" {
			out[r.Verb+" "+r.Object.Resource]++
		}
	}
	return out
}

// lead runs two replicas that agents of the group can follow, at the returned addresses.
func (a *agents) lead(t *testing.T, w *recoveryWorld, settings string) (addresses []string, kills []func()) {
	t.Helper()
	apply(t, a.plane, listsManifest(t))
	host := a.prefix + "250"
	certificate(t, a.work, host)
	for _, part := range []string{"a", "b"} {
		address := fmt.Sprintf("%s:%d", host, freePort(t, host))
		kill, _ := w.replica(a.name+"-"+part, settings+fmt.Sprintf(
			"members: {enabled: true, address: %q, certFile: %[2]s/tls.crt, keyFile: %[2]s/tls.key, agents: [%[3]s/%[4]s]}\n", address, a.work, deployedSpace, deployedName))
		addresses, kills = append(addresses, address), append(kills, kill)
	}
	return addresses, kills
}

// Agents that follow fencing-controller found their group, accept a node, enter maintenance, and outlive both replicas,
// without one request to the API server. The requests of the replicas in a quiet time do not depend on the agents.
func TestAgentsFollowTheController(t *testing.T) {
	w := newRecoveryWorld(t)
	a := newGroup(t, deploy(t), "listed", checkOften)
	began := time.Now()
	addresses, kills := a.lead(t, w, "")
	for i := range 3 {
		a.follower(t, addresses[i%2]).start(t)
	}
	a.settled(t, 3)
	a.follower(t, addresses[1]).start(t)
	a.settled(t, 4)

	first := a.group[0]
	if err := patchNode(a.admin, first.node, annotate(disable, true)); err != nil {
		t.Fatal(err)
	}
	first.shows(t, "under maintenance", func(s agentStatus) bool { return s.Watchdog.State != "WATCHDOG_STATE_ARMED" })
	if err := patchNode(a.admin, first.node, annotate(disable, false)); err != nil {
		t.Fatal(err)
	}
	a.settled(t, 4)

	// This is a quiet time.
	count := func() map[string]int { return a.askedByController(t, began) }
	before, verdicts := count(), a.verdicts(t)
	a.quiet(t)
	after := count()
	for what, n := range after {
		if n > before[what] {
			t.Errorf("%d of %q in a quiet time", n-before[what], what)
		}
	}
	t.Logf("requests of two replicas for 4 agents: %v", after)

	for _, kill := range kills {
		kill()
	}
	last := a.group[3]
	last.kill()
	last.start(t) // it has no replica to follow
	a.settled(t, 4)
	for _, r := range a.group[:3] {
		if s, ok := r.status(); !ok || s.Verdict.Permission != verdicts[r.node].Verdict.Permission {
			a.excuse(t)
			t.Errorf("%s: %+v", r.node, s)
		}
	}
	account := "system:serviceaccount:" + deployedSpace + ":" + deployedName
	asked, err := a.plane.Requests(func(r controlplane.Request) bool { return r.User.Name == account && r.Received.After(began) })
	if err != nil || len(asked) > 0 {
		t.Errorf("the agents have asked the API server %d times: %v, %v", len(asked), asked, err)
	}
}
