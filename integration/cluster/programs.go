package cluster

import (
	"fmt"
	"os"
	"path/filepath"
)

// ProgramsIn returns what make has built below the root of the repository.
func ProgramsIn(root string) (Programs, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return Programs{}, err
	}
	in := func(parts ...string) string { return filepath.Join(append([]string{root, "bin"}, parts...)...) }
	p := Programs{
		Kubetest: in("kubetest"), Runtime: in("runtime"), Node: in("cluster", "node"), Tool: in("cluster", "tool"),
		Agent: in("fencing-agent"), Fencectl: in("fencectl"), Controller: in("fencing-controller"),
		GuardedAgent: in("cluster", "agent"), CSI: in("cluster", "csi"), Plugin: in("cluster", "plugin"), Attacher: in("cluster", "csi-attacher"), Preload: in("cluster", "xstate.so"), Executor: in("cluster", "executor.tar"),
		Dockerfile: filepath.Join(root, "deploy", "Dockerfile"), ControllerFile: filepath.Join(root, "deploy", "controller", "Dockerfile"),
	}
	for _, path := range []string{p.Kubetest, p.Node, p.Tool, p.Agent, p.Fencectl, p.Controller, p.GuardedAgent, p.CSI, p.Plugin, p.Attacher, p.Preload, filepath.Join(p.Runtime, "containerd"), filepath.Join(p.Runtime, "runc")} {
		if _, err := os.Stat(path); err != nil {
			return p, fmt.Errorf("%w: make cluster and make test-cluster build it", err)
		}
	}
	return p, nil
}

// ManifestIn returns the path of the shipped manifest with the nodes' addresses.
func ManifestIn(root string) string {
	return filepath.Join(root, "deploy", "manifests", "storage-lun.yaml")
}

// ControllerManifestIn returns the path of the shipped manifest of fencing-controller.
func ControllerManifestIn(root string) string {
	return filepath.Join(root, "deploy", "controller", "controller.yaml")
}

// NodeFenceManifestIn returns the path of the additional manifest for fencing nodes by their devices.
func NodeFenceManifestIn(root string) string {
	return filepath.Join(root, "deploy", "controller", "nodefence.yaml")
}
