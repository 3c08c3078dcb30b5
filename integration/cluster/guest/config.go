package guest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/fencing-agent/fencing-agent/integration/cluster/machine"
)

func config(s *machine.Spec, name string) string { return filepath.Join(s.Dir, "config", name) }

func address(s *machine.Spec) string {
	ip, _, _ := strings.Cut(s.Ports[0].Address, "/")
	return ip
}

// configure writes the configuration of containerd and the kubelet.
func configure(s *machine.Spec) error {
	if err := os.MkdirAll(config(s, "cni"), 0o755); err != nil {
		return err
	}
	spec, err := baseSpec(s)
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(s.CAFile)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"base-spec.json":     spec,
		"containerd.toml":    containerdConfig(s),
		"cni/10-pods.conf":   cniConfig(s),
		"kubelet.yaml":       kubeletConfig(s),
		"kubelet.kubeconfig": kubeconfig(s, ca),
	} {
		if err := os.WriteFile(config(s, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// baseSpec writes the spec from which all containers are made: containerd's own, and the hook that gives them the boot
// id of their node.
func baseSpec(s *machine.Spec) (string, error) {
	out, err := exec.Command(filepath.Join(s.Runtime, "ctr"), "oci", "spec").Output()
	if err != nil {
		return "", fmt.Errorf("guest: ctr oci spec: %w", err)
	}
	var spec map[string]any
	if err := json.Unmarshal(out, &spec); err != nil {
		return "", err
	}
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return "", err
	}
	if s.Boot != "" {
		spec["hooks"] = map[string]any{"createContainer": []any{map[string]any{"path": self, "args": []string{"node", "hook", BootFile(s)}}}}
	}
	text, err := json.Marshal(spec)
	return string(text), err
}

func containerdConfig(s *machine.Spec) string {
	return fmt.Sprintf(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = %q
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = %q
[plugins.'io.containerd.cri.v1.runtime']
  # The harness may lack CAP_SYS_RESOURCE.
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = [%q]
    conf_dir = %q
    use_internal_loopback = true
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      base_runtime_spec = %q
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = %q
        SystemdCgroup = false
`, socket, s.Sandbox, s.Runtime, config(s, "cni"), config(s, "base-spec.json"), filepath.Join(s.Runtime, "runc"))
}

func cniConfig(s *machine.Spec) string {
	return fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "pods", "type": "bridge", "bridge": "pods", "isGateway": true, "hairpinMode": true,
 "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}}
`, s.Pods)
}

// kubeletConfig returns a configuration that differs from a kubelet's defaults where the node is not a real machine, or
// where the tests would have to wait. nodeStatusUpdateFrequency is also the timeout of a request to renew the Lease,
// and a Lease of 10 s needs 2 s (docs/controller.md).
func kubeletConfig(s *machine.Spec) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://%s
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
authentication:
  x509: {clientCAFile: %q}
  webhook: {enabled: true, cacheTTL: 2s}
  anonymous: {enabled: false}
authorization: {mode: Webhook}
resolvConf: ""
makeIPTablesUtilChains: false
localStorageCapacityIsolation: false
volumePluginDir: /var/lib/kubelet/volume-plugins
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%", imagefs.inodesFree: "0%%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeStatusUpdateFrequency: 2s
nodeStatusReportFrequency: 5s
nodeLeaseDurationSeconds: %d
`, socket, s.CAFile, s.LeaseSeconds)
}

func kubeconfig(s *machine.Spec, ca []byte) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: cluster, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: kubelet, user: {token: %q}}]
contexts: [{name: kubelet, context: {cluster: cluster, user: kubelet}}]
current-context: kubelet
`, s.Server, base64.StdEncoding.EncodeToString(ca), s.Token)
}
