package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	authentication "k8s.io/api/authentication/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// lifetime is that of a token. A kubelet would renew tokens; these tests have no kubelet, and may take hours.
const lifetime = 24 * time.Hour

// Admin returns a client configuration that may do everything, without a rate limit.
func (p *ControlPlane) Admin() *rest.Config { return p.As(p.keys.admin) }

// As returns a client configuration with this bearer token.
func (p *ControlPlane) As(token string) *rest.Config {
	return &rest.Config{
		Host: p.URL(), BearerToken: token, QPS: -1, UserAgent: "controlplane",
		TLSClientConfig: rest.TLSClientConfig{CAData: p.keys.ca},
	}
}

// CA returns the certificate that identifies the server and a [Proxy], in PEM.
func (p *ControlPlane) CA() []byte { return bytes.Clone(p.keys.ca) }

// WriteKubeconfig writes a kubeconfig for a client with this token. server is the address that the client uses:
// [ControlPlane.URL], or the URL of a [Proxy].
func (p *ControlPlane) WriteKubeconfig(path, server, token string) error {
	c := api.NewConfig()
	c.Clusters["test"] = &api.Cluster{Server: server, CertificateAuthorityData: p.keys.ca}
	c.AuthInfos["test"] = &api.AuthInfo{Token: token}
	c.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: "test"}
	c.CurrentContext = "test"
	return clientcmd.WriteToFile(*c, path)
}

// Kubectl runs kubectl as the administrator and returns its output. stdin may be empty.
func (p *ControlPlane) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	kubeconfig := filepath.Join(p.config.Dir, "admin.kubeconfig")
	if _, err := os.Stat(kubeconfig); err != nil {
		if err := p.WriteKubeconfig(kubeconfig, p.URL(), p.keys.admin); err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, p.config.Binary, append([]string{"kubectl", "--kubeconfig=" + kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "HOME="+p.config.Dir) // for its cache
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Compact makes etcd forget all revisions except the current one, which it returns. If an API server starts after that,
// or runs without a watch cache, it answers 410 Gone to a watch from an earlier revision.
func (p *ControlPlane) Compact(ctx context.Context) (revision string, err error) {
	var answer struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	// Any key is good enough: the header of the answer contains the revision.
	if err := p.askEtcd(ctx, "/v3/kv/range", map[string]any{"key": "AA=="}, &answer); err != nil {
		return "", err
	}
	revision = answer.Header.Revision
	return revision, p.askEtcd(ctx, "/v3/kv/compaction", map[string]any{"revision": revision, "physical": true}, &struct{}{})
}

func (p *ControlPlane) askEtcd(ctx context.Context, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.etcdURL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("etcd %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd %s: %s: %s", path, resp.Status, text)
	}
	return json.Unmarshal(text, answer)
}

// ServiceAccountToken returns a token of a service account like the token of a pod on a node. It is bound to the pod,
// and names the pod's node to the server. pod may be empty.
func (p *ControlPlane) ServiceAccountToken(ctx context.Context, namespace, account, pod string) (string, error) {
	client, err := kubernetes.NewForConfig(p.Admin())
	if err != nil {
		return "", err
	}
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{ExpirationSeconds: new(int64(lifetime / time.Second))}}
	if pod != "" {
		found, err := client.CoreV1().Pods(namespace).Get(ctx, pod, meta.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("token of service account %s: %w", account, err)
		}
		request.Spec.BoundObjectRef = &authentication.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod, UID: found.UID}
	}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, meta.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of service account %s: %w", account, err)
	}
	return answer.Status.Token, nil
}
