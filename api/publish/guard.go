package publish

import (
	"context"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// recovered turns a panic of a handler into an error. Otherwise a fault in a mere report would end the agent, and the
// node would be reset.
func (s *Server) recovered(method string, err *error) {
	if p := recover(); p != nil {
		s.log.Error("API handler panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "internal error, see the agent's log")
	}
}

func (s *Server) guardCall(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
	defer s.recovered(info.FullMethod, &err)
	return next(ctx, req)
}

func (s *Server) guardStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer s.recovered(info.FullMethod, &err)
	if info.FullMethod != healthpb.Health_Watch_FullMethodName {
		return next(srv, stream)
	}
	// The health service never ends a watch by itself, and a graceful stop would wait for it until its deadline.
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	return next(srv, streamWithContext{stream, ctx})
}

type streamWithContext struct {
	grpc.ServerStream
	ctx context.Context
}

func (s streamWithContext) Context() context.Context { return s.ctx }
