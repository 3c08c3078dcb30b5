package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

const (
	// DefaultMaxWatchers limits WatchStatus calls: each costs a whole status up to ten times a second, and they are for
	// people and dashboards.
	DefaultMaxWatchers = 32

	maxStreamsPerConnection = 128
	maxRequestBytes         = 64 << 10 // only requests for reflection are not empty
	minClientPing           = 5 * time.Second

	// A client that does not even answer pings, for example one that is stopped by a signal, is disconnected. Otherwise
	// it would hold its connection for ever.
	idleBeforePing = time.Minute
	pingTimeout    = 20 * time.Second
)

// Config configures a [Server].
type Config struct {
	Hub *Hub
	// Status creates the present status: a new message that the server may change and keep. It is called from many
	// goroutines and must not wait for the deciding loop. If the function or the message is nil, there is no status
	// yet.
	Status      func() *fencingv1.Status
	MaxWatchers int // limits concurrent calls of WatchStatus; 0: DefaultMaxWatchers
	// Tell handles reported deaths, see [Server.ConfirmDead]; nil: they are refused.
	Tell Tell
	// Order handles orders, see [Server.Fence]; nil: they are refused.
	Order Order
	// Maintain handles maintenance, see [Server.SetMaintenance]; nil: it is refused.
	Maintain Maintain
	// MayTell returns an error if the caller may not report a death or give orders; nil: RootOnly.
	MayTell func(context.Context) error
	Log     *slog.Logger
}

// Server implements the services fencing.v1.Fencing, fencing.v1.FencingStatus and fencing.v1.FencingControl, health and
// reflection. The health of all of them is NOT_SERVING until SetReady(true).
type Server struct {
	fencingv1.UnimplementedFencingServer
	fencingv1.UnimplementedFencingStatusServer
	fencingv1.UnimplementedFencingControlServer

	hub      *Hub
	status   func() *fencingv1.Status
	log      *slog.Logger
	grpc     *grpc.Server
	health   *health.Server
	watchers *watchers
	tell     Tell
	order    Order
	maintain Maintain
	mayTell  func(context.Context) error
	telling  chan struct{}  // one for each call that waits
	senders  sync.WaitGroup // goroutines inside Send; they outlive their handler briefly

	stopping context.Context // done once Stop was called
	stop     context.CancelFunc
}

// services lists the names whose health follows SetReady; "" is the whole server.
var services = [...]string{"", fencingv1.Fencing_ServiceDesc.ServiceName, fencingv1.FencingStatus_ServiceDesc.ServiceName, fencingv1.FencingControl_ServiceDesc.ServiceName}

// New returns a server for cfg.Hub. The caller has to end it by Stop, which also closes the hub.
func New(cfg Config) (*Server, error) {
	if cfg.Hub == nil {
		return nil, errors.New("api server: no hub given")
	}
	if cfg.MaxWatchers <= 0 {
		cfg.MaxWatchers = DefaultMaxWatchers
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Status == nil {
		cfg.Status = func() *fencingv1.Status { return nil }
	}
	s := &Server{
		hub:      cfg.Hub,
		status:   cfg.Status,
		log:      cfg.Log,
		health:   health.NewServer(),
		watchers: newWatchers(cfg.MaxWatchers),
		tell:     cfg.Tell,
		order:    cfg.Order,
		maintain: cfg.Maintain,
		mayTell:  cfg.MayTell,
		telling:  make(chan struct{}, maxTelling),
	}
	if s.mayTell == nil {
		s.mayTell = RootOnly
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.grpc = grpc.NewServer(
		grpc.Creds(peerCredentials{}),
		grpc.UnaryInterceptor(s.guardCall),
		grpc.StreamInterceptor(s.guardStream),
		grpc.MaxConcurrentStreams(maxStreamsPerConnection),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.ForceServerCodecV2(newCodec()),
		// On a local socket a consumer may check its connection often; grpc's default would disconnect it.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minClientPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: idleBeforePing, Timeout: pingTimeout}),
	)
	fencingv1.RegisterFencingServer(s.grpc, s)
	fencingv1.RegisterFencingStatusServer(s.grpc, s)
	fencingv1.RegisterFencingControlServer(s.grpc, s)
	healthpb.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	s.SetReady(false)
	return s, nil
}

// Serve answers on l until Stop, and closes l. It returns nil after a Stop.
func (s *Server) Serve(l net.Listener) error {
	s.log.Info("serving the API", "address", l.Addr().String())
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// SetReady sets the health in grpc.health.v1: whether the agent works as it should. The other services do not depend on
// it.
func (s *Server) SetReady(ready bool) {
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if ready {
		state = healthpb.HealthCheckResponse_SERVING
	}
	for _, name := range services {
		s.health.SetServingStatus(name, state)
	}
}

// Stop ends all calls and waits for them: subscribers still get the events that are queued for them. If ctx ends first,
// Stop cuts connections and returns its error. Stop may be called again.
func (s *Server) Stop(ctx context.Context) error {
	s.health.Shutdown()
	s.hub.Close()
	s.stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = fmt.Errorf("stop API: clients were cut off: %w", ctx.Err())
		s.grpc.Stop()
		<-done
	}
	s.senders.Wait()
	return err
}
