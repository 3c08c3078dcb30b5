package kube

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

// healthCheckEnv names the variable with a folder that contains the source of medik8s' node-healthcheck-operator and
// the program "manager" that was built from it (docs/measurements/remediation.md).
const healthCheckEnv = "FENCING_NODE_HEALTHCHECK"

// NodeHealthCheck drives a remediation to its end, with no rights other than its own role and that of our manifest.
func TestNodeHealthCheckDrivesUs(t *testing.T) {
	source := os.Getenv(healthCheckEnv)
	if source == "" {
		t.Skip("needs a node-healthcheck-operator in " + healthCheckEnv)
	}
	w := newFenceWorld(t, "begin_by=remediation\nsettle=1\npoll_interval=1")
	for _, file := range []string{"config/crd/bases/remediation.medik8s.io_nodehealthchecks.yaml", "config/rbac/role.yaml"} {
		text, err := os.ReadFile(filepath.Join(source, file))
		w.must(err)
		apply(t, w.plane, string(text))
	}
	_, err := w.plane.Kubectl(t.Context(), "", "wait", "--for=condition=Established", "--timeout=60s", "crd/nodehealthchecks.remediation.medik8s.io")
	w.must(err)
	w.kubelets("rec-1", "rec-2", "rec-3")
	w.replica("controller-na", fenceSettings)
	w.replica("controller-nb", fenceSettings)
	log := w.healthCheck(filepath.Join(source, "manager"))
	apply(t, w.plane, `
apiVersion: fencing-agent.io/v1alpha1
kind: FencingRemediationTemplate
metadata: {name: fencing, namespace: fencing-controller}
spec: {template: {spec: {}}}
---
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: all}
spec:
  minHealthy: 51%
  selector: {matchExpressions: [{key: `+groupLabel+`, operator: In, values: [rec]}]}
  remediationTemplate: {apiVersion: fencing-agent.io/v1alpha1, kind: FencingRemediationTemplate, name: fencing, namespace: fencing-controller}
  unhealthyConditions:
    - {type: Ready, status: Unknown, duration: 1s}
`)
	checks := schema.GroupVersionResource{Group: "remediation.medik8s.io", Version: "v1alpha1", Resource: "nodehealthchecks"}
	t.Cleanup(func() {
		_ = w.dynamic.Resource(checks).Delete(context.Background(), "all", meta.DeleteOptions{})
	})
	phase := func() string {
		m, err := w.dynamic.Resource(checks).Get(t.Context(), "all", meta.GetOptions{})
		w.must(err)
		s, _, _ := unstructured.NestedString(m.Object, "status", "phase")
		return s
	}
	await(t, "NodeHealthCheck is content: see "+log, func() bool { return phase() == "Enabled" })
	w.unknown()
	began := time.Now()
	await(t, "NodeHealthCheck has made a remediation", func() bool { return w.condition("rec-4", "Succeeded") != "" })
	t.Logf("Unknown to the remediation: %v", time.Since(began).Round(time.Millisecond))
	await(t, "it has succeeded", func() bool { return w.condition("rec-4", "Succeeded") == "True" })
	t.Logf("Unknown to the proof: %v", time.Since(began).Round(time.Millisecond))
	if got := phase(); got != "Remediating" {
		t.Errorf("NodeHealthCheck is %s", got)
	}
	await(t, "the power is on again", w.power)
	w.boots(nextID)
	w.kubelets("rec-4")
	w.ready()
	began = time.Now()
	await(t, "NodeHealthCheck has deleted the remediation, and it is gone", func() bool { return w.condition("rec-4", "Succeeded") == "" })
	t.Logf("Ready to the end of the remediation: %v", time.Since(began).Round(time.Millisecond))
	await(t, "NodeHealthCheck is content again", func() bool { return phase() == "Enabled" })
	if w.fenced() {
		t.Error("its NodeFence is left")
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	if got := strings.Join(slices.Compact(w.ran), " "); got != "check bmc-off bmc-on" {
		t.Errorf("ran %s", got)
	}
}

// healthCheck runs the operator until the test ends, and returns the path of its log. Its account has its own role and
// ours: kube-controller-manager, which would add ours because of its label, does not run here.
func (w *fenceWorld) healthCheck(program string) string {
	w.t.Helper()
	const space = "nhc"
	namespace(w.t, w.plane, space)
	_, err := w.admin.CoreV1().ServiceAccounts(space).Create(w.t.Context(), &core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: space}}, meta.CreateOptions{})
	w.must(err)
	for _, role := range []string{"manager-role", "fencing-controller-ext-remediation"} {
		_, err := w.admin.RbacV1().ClusterRoleBindings().Create(w.t.Context(), &rbac.ClusterRoleBinding{
			ObjectMeta: meta.ObjectMeta{Name: "nhc-" + role}, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbac.Subject{{Kind: rbac.ServiceAccountKind, Name: space, Namespace: space}},
		}, meta.CreateOptions{})
		w.must(err)
	}
	token, err := w.plane.ServiceAccountToken(w.t.Context(), space, space, "")
	w.must(err)
	dir := w.t.TempDir()
	kubeconfig, logFile := filepath.Join(dir, "kubeconfig"), filepath.Join(w.plane.Dir(), "nhc.log")
	w.must(w.plane.WriteKubeconfig(kubeconfig, w.plane.URL(), token))
	w.must(serving(filepath.Join(dir, "k8s-webhook-server", "serving-certs")))
	out, err := os.Create(logFile)
	w.must(err)
	defer out.Close()
	cmd := exec.Command(program, "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "DEPLOYMENT_NAMESPACE="+space, "TMPDIR="+dir)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	done := make(chan struct{})
	w.must(controlplane.StartChild(cmd, func(error) { close(done) }))
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
	})
	return logFile
}

// serving creates a certificate, which the operator needs for a webhook that nobody calls here.
func serving(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	cert, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, b := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: cert}, "tls.key": {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(b), 0o600); err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
	}
	return nil
}
