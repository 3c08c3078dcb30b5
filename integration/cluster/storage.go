package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/fencing-agent/fencing-agent/integration/cluster/csi"
	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

// storage contains the volumes and the program that attaches them.
type storage struct {
	*csi.Storage
	folder   string // folder of the host that has a folder for each volume
	stop     context.CancelFunc
	served   chan error
	attacher *exec.Cmd
	waited   chan struct{}
}

// driverObject tells Kubernetes that volumes must be attached.
const driverObject = `apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: ` + csi.Driver + `}
spec: {attachRequired: true, podInfoOnMount: false, volumeLifecycleModes: [Persistent], fsGroupPolicy: None}
`

// startStorage starts the storage in the harness: the API server can lose its nodes without losing the storage.
func (c *Cluster) startStorage(ctx context.Context) (*storage, error) {
	dir := filepath.Join(c.dir, "storage")
	s := &storage{Storage: &csi.Storage{}, folder: filepath.Join(dir, "volumes"), served: make(chan error, 1), waited: make(chan struct{})}
	if err := os.MkdirAll(s.folder, 0o755); err != nil {
		return nil, err
	}
	kubeconfig, socket := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "csi.sock")
	if err := errors.Join(c.Plane.Kubeconfig(kubeconfig, c.Plane.URL()), c.Apply(ctx, driverObject)); err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	go func() { s.served <- s.Serve(serving, socket) }()
	log, err := os.Create(filepath.Join(dir, "attacher.log"))
	if err != nil {
		stop()
		return nil, err
	}
	defer log.Close()
	s.attacher = exec.Command(c.config.Programs.Attacher, "--csi-address="+socket, "--kubeconfig="+kubeconfig, "--http-endpoint=", "-v=3")
	s.attacher.Stdout, s.attacher.Stderr = log, log
	s.attacher.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := controlplane.StartChild(s.attacher, func(error) { close(s.waited) }); err != nil {
		stop()
		return nil, fmt.Errorf("csi-attacher: %w", err)
	}
	return s, nil
}

func (s *storage) close() error {
	_ = s.attacher.Process.Kill() // it may already have ended
	<-s.waited
	s.stop()
	return <-s.served
}

// Storage returns the storage's own record of which volume is attached where.
func (c *Cluster) Storage() *csi.Storage { return c.storage.Storage }

// Volume returns the path of a volume's folder on the host.
func (c *Cluster) Volume(name string) string { return filepath.Join(c.storage.folder, name) }

// AddVolume creates a volume that one node at a time can use, bound to a claim.
func (c *Cluster) AddVolume(ctx context.Context, name, namespace, claim string) error {
	if err := os.MkdirAll(c.Volume(name), 0o777); err != nil {
		return err
	}
	return c.Apply(ctx, fmt.Sprintf(`apiVersion: v1
kind: PersistentVolume
metadata: {name: %s}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  claimRef: {namespace: %s, name: %s}
  csi: {driver: %s, volumeHandle: %s}
`, name, namespace, claim, csi.Driver, name))
}
