package csi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Driver is the name of the storage's driver in Kubernetes.
const Driver = "volumes.example.com"

// A kubelet looks into these folders.
const (
	plugins  = "/var/lib/kubelet/plugins/" + Driver
	registry = "/var/lib/kubelet/plugins_registry"
)

// ServeNode serves the kubelet of a node. root has a folder for each volume.
func ServeNode(ctx context.Context, node, root string) error {
	if err := errors.Join(os.MkdirAll(plugins, 0o755), os.MkdirAll(registry, 0o755)); err != nil {
		return err
	}
	endpoint := filepath.Join(plugins, "csi.sock")
	driver, registrar := grpc.NewServer(), grpc.NewServer()
	csi.RegisterIdentityServer(driver, identity{})
	csi.RegisterNodeServer(driver, &nodeServer{node: node, root: root})
	registration.RegisterRegistrationServer(registrar, registrarServer{endpoint: endpoint})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return listenAndServe(ctx, driver, endpoint) })
	group.Go(func() error { return listenAndServe(ctx, registrar, filepath.Join(registry, Driver+"-reg.sock")) })
	return group.Wait()
}

func listenAndServe(ctx context.Context, s *grpc.Server, socket string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err // it was left by the last boot
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, s.Stop)()
	return s.Serve(l)
}

// registrarServer tells the kubelet where the driver is.
type registrarServer struct {
	registration.UnimplementedRegistrationServer
	endpoint string
}

func (r registrarServer) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: Driver, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

func (registrarServer) NotifyRegistrationStatus(context.Context, *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	return &registration.RegistrationStatusResponse{}, nil
}

// identity names the driver, in the nodes and in the harness.
type identity struct {
	csi.UnimplementedIdentityServer
}

func (identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: Driver, VendorVersion: "1"}, nil
}

func (identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{Type: &csi.PluginCapability_Service_{Service: service}}}}, nil
}

func (identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

type nodeServer struct {
	csi.UnimplementedNodeServer
	node, root string
}

func (n *nodeServer) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.node}, nil
}

func (*nodeServer) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func (n *nodeServer) NodePublishVolume(_ context.Context, q *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	from := filepath.Join(n.root, q.VolumeId)
	if err := errors.Join(os.MkdirAll(from, 0o777), os.MkdirAll(q.TargetPath, 0o755)); err != nil {
		return nil, internal(err)
	}
	if at(from) != at(q.TargetPath) { // it is not yet mounted there
		if err := unix.Mount(from, q.TargetPath, "", unix.MS_BIND, ""); err != nil {
			return nil, internal(fmt.Errorf("mount on %s: %w", q.TargetPath, err))
		}
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (*nodeServer) NodeUnpublishVolume(_ context.Context, q *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	err := unix.Unmount(q.TargetPath, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // after a boot there is no mount
		return nil, internal(err)
	}
	if err := os.Remove(q.TargetPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, internal(err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func internal(err error) error { return status.Error(codes.Internal, err.Error()) }

// at identifies a file or folder.
func at(path string) [2]uint64 {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return [2]uint64{}
	}
	return [2]uint64{s.Dev, s.Ino}
}
