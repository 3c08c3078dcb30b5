package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// teller is an agent that has only its token.
func (w *recoveryWorld) teller(node string) string {
	w.t.Helper()
	p := w.pod("default", "teller-"+node, func(p *core.Pod) { p.Spec.NodeName = node })
	t, err := w.admin.CoreV1().ServiceAccounts("default").CreateToken(w.t.Context(), "default", &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{
		Audiences: []string{"fencing-controller"}, BoundObjectRef: &authentication.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID},
	}}, meta.CreateOptions{})
	w.must(err)
	return t.Status.Token
}

// tellerBoot is the boot of the nodes whose agents report.
const tellerBoot = "f24bc581b3a34be3"

// calling makes one call to a replica, like an agent without the API server.
func calling(t *testing.T, ca, address, token string, call func(context.Context, fencingv1.FencingMembersClient) error) error {
	t.Helper()
	text, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13})))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token), 10*time.Second)
	defer cancel()
	return call(ctx, fencingv1.NewFencingMembersClient(conn))
}

// tellTo reports to one replica that rec-4 is dead, or withdraws that.
func tellTo(t *testing.T, ca, address, token string, at uint64, dead bool) error {
	t.Helper()
	r := &fencingv1.DeathsReport{Boot: tellerBoot, At: at}
	if dead {
		r.Deaths = []*fencingv1.ProvenDeath{{Node: "rec-4", Boot: deadBoot, Proof: "time", At: time.Now().Unix(), Said: r.Boot}}
	}
	return calling(t, ca, address, token, func(ctx context.Context, c fencingv1.FencingMembersClient) error {
		_, err := c.TellDeaths(ctx, r)
		return err
	})
}

// Two agents without the API server report a death, each to a different replica. Both replicas learn of it, and the
// node is recovered. One agent that withdraws its report puts the death in dispute. The controller's account writes no
// other ConfigMap.
func TestDeathsAreToldToTheController(t *testing.T) {
	w := newRecoveryWorld(t)
	w.account("default")
	apply(t, w.plane, listsManifest(t))
	w.kubelets("rec-1", "rec-2", "rec-3")
	w.pod("default", "db-0", nil)
	dir, host := t.TempDir(), "127.0.0.1"
	certificate(t, dir, host)
	ca := filepath.Join(dir, "tls.crt")
	var addresses, logs []string
	for _, name := range []string{"told-a", "told-b"} {
		address := fmt.Sprintf("%s:%d", host, freePort(t, host))
		_, log := w.replica(name, fmt.Sprintf("dryRun: false\nreplicas: {pause: 0s}\nmembers: {enabled: true, address: %q, certFile: %[2]s/tls.crt, keyFile: %[2]s/tls.key, agents: [default/default]}\n", address, dir))
		addresses, logs = append(addresses, address), append(logs, log)
	}
	one, two := w.teller("rec-1"), w.teller("rec-2")
	await(t, "a replica accepts an agent's report", func() bool { return tellTo(t, ca, addresses[0], one, 1, true) == nil })
	for _, l := range logs {
		await(t, "one report is not believed", func() bool { return strings.Contains(read(l), `"phase":"unproven"`) })
	}
	if err := tellTo(t, ca, addresses[1], one, 1, false); status.Code(err) != codes.Aborted {
		t.Errorf("a late report: %v", err)
	}
	if err := tellTo(t, ca, addresses[1], w.token, 2, true); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a token that does not belong to an agent: %v", err)
	}
	// The Lease must not be renewed before it has expired, or the death is in dispute.
	w.renewed("rec-4", time.Now().Add(-time.Minute))
	began := time.Now()
	if err := tellTo(t, ca, addresses[1], two, 1, true); err != nil {
		t.Fatal(err)
	}
	await(t, "the taint", func() bool { return w.taint() == "fenced-"+deadBoot })
	t.Logf("from the second agent's report to the taint: %v", time.Since(began).Round(time.Millisecond))
	await(t, "it is taken back", func() bool { return tellTo(t, ca, addresses[0], two, 2, false) == nil })
	await(t, "it is in dispute", func() bool { return w.noted() == deadBoot })

	as := w.as.CoreV1().ConfigMaps(controllerSpace)
	for name, label := range map[string]string{"fencing-deaths-rec-9": "true", "fencing-members-x": "deaths", "x": "deaths", "fencing-sightings-x": "deaths", "fencing-deaths-x": "sightings"} {
		m := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{"fencing-agent.io/members": label}}}
		if _, err := as.Create(t.Context(), m, meta.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("ConfigMap %s with %s: %v", name, label, err)
		}
	}
}
