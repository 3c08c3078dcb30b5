package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// InContainer is the path of the device in a container that has asked for the resource.
const InContainer = "/dev/watchdog"

const (
	limit = 10 * time.Second // limit of the registration
	pace  = time.Second
)

// Serve offers the node's device as the only one of the resource, until the kubelet starts again.
func Serve(ctx context.Context, resource, device string) error {
	name := strings.ReplaceAll(resource, "/", "_") + ".sock"
	path := filepath.Join(plugin.DevicePluginPath, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err // it was left by the last container
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	plugin.RegisterDevicePluginServer(s, server{device: device})
	defer s.Stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	if err := register(ctx, resource, name); err != nil {
		return fmt.Errorf("register with the kubelet: %w", err)
	}
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if _, err := os.Stat(path); err != nil {
				return errors.New("the kubelet has started again")
			}
		case err := <-ended:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func register(ctx context.Context, resource, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := grpc.NewClient("unix://"+plugin.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = plugin.NewRegistrationClient(conn).Register(ctx, &plugin.RegisterRequest{
		Version: plugin.Version, Endpoint: endpoint, ResourceName: resource, Options: &plugin.DevicePluginOptions{},
	})
	return err
}

type server struct {
	plugin.UnimplementedDevicePluginServer
	device string
}

func (server) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

func (server) ListAndWatch(_ *plugin.Empty, out grpc.ServerStreamingServer[plugin.ListAndWatchResponse]) error {
	if err := out.Send(&plugin.ListAndWatchResponse{Devices: []*plugin.Device{{ID: "0", Health: plugin.Healthy}}}); err != nil {
		return err
	}
	<-out.Context().Done()
	return nil
}

func (s server) Allocate(_ context.Context, q *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	a := &plugin.AllocateResponse{}
	for range q.GetContainerRequests() {
		a.ContainerResponses = append(a.ContainerResponses, &plugin.ContainerAllocateResponse{
			Devices: []*plugin.DeviceSpec{{HostPath: s.device, ContainerPath: InContainer, Permissions: "rw"}},
		})
	}
	return a, nil
}
