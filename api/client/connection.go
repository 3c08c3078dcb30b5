package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
)

const (
	// The pauses between attempts double from the first to the longest. They are short because the socket is local; the
	// longest limits how late a new agent is noticed.
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second

	// askInterval is the time between two checks whether the agent is alive. A process that is stopped or frozen keeps
	// its socket open.
	askInterval = time.Second
	// patience is the time that an answer may take before the client gives the connection up.
	patience = 5 * time.Second
	// rosterInterval is the time between two reads of the list of members.
	rosterInterval = time.Minute

	maxAnswerBytes = 16 << 20 // a status of a thousand nodes has about 1 MiB
	// windowBytes is the initial window of HTTP/2. If it were not fixed, grpc would measure the path with a ping for
	// each event, which doubles the cost of an event on both sides.
	windowBytes = 64 << 10
)

var (
	errNoAnswer = errors.New("no answer in time: its process may be stopped or overloaded")
	errOnce     = errors.New("the connection broke off")
)

// connect keeps a session with the agent, one after the other, until ctx ends. A session calls answered when the agent
// has answered, and returns why it ended; lost gets that reason.
func (c *Config) connect(ctx context.Context, session func(_ context.Context, answered func()) error, lost func(error)) {
	backoff := boottime.Backoff{First: firstPause, Most: longestPause}
	for ctx.Err() == nil {
		err := session(ctx, backoff.Reset)
		if ctx.Err() != nil {
			return
		}
		c.Log.Debug("the agent does not send its stream", "socket", c.Socket, "cause", err)
		lost(err)
		boottime.Wait(ctx, backoff.Next())
	}
}

// dial prepares one connection.
func (c *Config) dial(more ...grpc.DialOption) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///agent", append(more,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(c.dialOnce()),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)),
	)...)
	if err != nil {
		return nil, fmt.Errorf("agent socket %s: %w", c.Socket, err)
	}
	return conn, nil
}

// dialOnce returns a dialer for one connection. If grpc reconnected by itself, the set and the events after it could
// come from two agents, whose revisions cannot be compared.
func (c *Config) dialOnce() func(context.Context, string) (net.Conn, error) {
	var dialled atomic.Bool
	return func(ctx context.Context, _ string) (net.Conn, error) {
		if dialled.Swap(true) {
			return nil, errOnce
		}
		return c.Dial(ctx)
	}
}

// withoutDeadline returns a context that ends with ctx, but has no deadline that grpc would send to the agent. At the
// deadline the agent would end the stream just before ctx ends here, as if the agent had gone away.
func withoutDeadline(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	inner, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	return inner, func(cause error) {
		stop()
		end(cause)
	}
}

// session is one connection, from dialling to its end. It calls answered when the agent has sent its set.
func (f *follower) session(ctx context.Context, answered func()) error {
	ctx, end := withoutDeadline(ctx)
	defer end(nil)
	conn, err := f.cfg.dial(grpc.WithStaticStreamWindowSize(windowBytes), grpc.WithStaticConnWindowSize(windowBytes))
	if err != nil {
		return err
	}
	var asking sync.WaitGroup
	defer func() {
		end(nil)
		_ = conn.Close() // no call is left that this could disturb
		asking.Wait()
	}()

	impatience := time.AfterFunc(patience, func() { end(errNoAnswer) })
	defer impatience.Stop()
	events, err := begin(ctx, conn, func(all *fencingv1.AllNodes, revision uint64) error {
		impatience.Stop()
		answered()
		f.update(func() {
			f.word, f.connected, f.err = time.Now(), true, nil
			f.set(all, revision, time.Now())
		})
		f.cfg.Log.Debug("following the agent", "socket", f.cfg.Socket, "revision", revision, "nodes", len(all.GetNodes()))
		asking.Go(func() { f.ask(ctx, conn, end) })
		return nil
	})
	if err == nil {
		err = f.read(ctx, events)
	}
	f.orderlyEnd(ctx, err)
	return f.explain(ctx, err)
}

// orderlyEnd counts the end of a stream as the agent's last message, unless this side gave up: until then the stream
// was complete.
func (f *follower) orderlyEnd(ctx context.Context, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.connected && err != nil && ctx.Err() == nil {
		f.word = time.Now()
	}
}

// ask checks repeatedly whether the agent is alive, and sometimes reads its list of members, until ctx ends. It ends
// the session if there is no answer.
func (f *follower) ask(ctx context.Context, conn *grpc.ClientConn, end func(error)) {
	health, agent := healthpb.NewHealthClient(conn), fencingv1.NewFencingStatusClient(conn)
	var rosterAt time.Time
	for {
		one, cancel := context.WithTimeout(ctx, patience)
		var err error
		if rosterAt.IsZero() || time.Since(rosterAt) >= rosterInterval {
			rosterAt = time.Now()
			var st *fencingv1.Status
			if st, err = agent.GetStatus(one, &emptypb.Empty{}); err == nil {
				f.update(func() { f.roster(st) })
			}
		} else {
			_, err = health.Check(one, &healthpb.HealthCheckRequest{})
		}
		late := one.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case late:
			end(errNoAnswer)
			return
		case ctx.Err() != nil:
			return
		case isAnswer(err):
			f.heard()
		}
		if boottime.Wait(ctx, askInterval); ctx.Err() != nil {
			return
		}
	}
}

// isAnswer reports whether the agent answered, even with an error. UNAVAILABLE may come from grpc on this side; then
// the stream ends as well.
func isAnswer(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return false
	}
	return true
}

// explain describes in one line why there is no stream.
func (f *follower) explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), errNoAnswer):
		err = errNoAnswer
	case errors.Is(err, io.EOF):
		err = errors.New("the agent ended the stream")
	default:
		err = fmt.Errorf("%s (%v)", status.Convert(err).Message(), status.Code(err))
	}
	return fmt.Errorf("agent socket %s: %w", f.cfg.Socket, err)
}
