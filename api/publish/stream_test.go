package publish

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

type eventStream = grpc.ServerStreamingClient[fencingv1.Event]

// open subscribes and waits for the headers.
func open(t testing.TB, ctx context.Context, c fencingv1.FencingClient) (eventStream, uint64) {
	t.Helper()
	stream, err := c.StreamEvents(ctx, &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	header, err := stream.Header()
	if err != nil {
		t.Fatal(err)
	}
	return stream, revisionOf(t, header)
}

func parseRevision(header metadata.MD) (uint64, error) {
	values := header.Get(RevisionHeader)
	if len(values) != 1 {
		return 0, fmt.Errorf("header %s is %q", RevisionHeader, values)
	}
	return strconv.ParseUint(values[0], 10, 64)
}

func revisionOf(t testing.TB, header metadata.MD) uint64 {
	t.Helper()
	revision, err := parseRevision(header)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func wantEvent(t testing.TB, stream eventStream, want string) *fencingv1.Event {
	t.Helper()
	ev, err := stream.Recv()
	if err != nil || line(ev) != want {
		t.Fatalf("got %v, %v; want %s", ev, err, want)
	}
	return ev
}

func wantEnd(t testing.TB, stream eventStream, code codes.Code) {
	t.Helper()
	if ev, err := stream.Recv(); status.Code(err) != code {
		t.Fatalf("got %v, %v; want the end with %v", ev, err, code)
	}
}

func TestNothingIsServedBeforeTheFirstUpdate(t *testing.T) {
	f := serve(t, HubConfig{}, Config{})
	ctx, c := testContext(t), f.client(t)
	if _, err := c.GetAll(ctx, &emptypb.Empty{}); status.Code(err) != codes.Unavailable {
		t.Errorf("GetAll: %v", err)
	}
	stream, err := c.StreamEvents(ctx, &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	wantEnd(t, stream, codes.Unavailable)
}

// TestEventBetweenHeadersAndGetAll tests the promise that the two calls make together.
func TestEventBetweenHeadersAndGetAll(t *testing.T) {
	f := serve(t, HubConfig{}, Config{})
	f.hub.Update(nodes("n1", "n2"), nil)
	ctx, c := testContext(t), f.client(t)
	stream, from := open(t, ctx, c)
	f.hub.Publish(left("n2"))
	var header metadata.MD
	all, err := c.GetAll(ctx, &emptypb.Empty{}, grpc.Header(&header))
	if err != nil {
		t.Fatal(err)
	}
	wantNames(t, all, "n1")
	wantEvent(t, stream, "LEFT n2")
	if at := revisionOf(t, header); at != from+1 {
		t.Errorf("the stream began after %d, GetAll was at %d: the client cannot tell that it knows the event", from, at)
	}
}

func TestTooManySubscribers(t *testing.T) {
	f := serve(t, HubConfig{MaxSubscribers: 1}, Config{})
	f.hub.Update(nil, nil)
	c := f.client(t)
	ctx, cancel := context.WithCancel(testContext(t))
	open(t, ctx, c)
	refused, err := c.StreamEvents(testContext(t), &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	wantEnd(t, refused, codes.ResourceExhausted)
	cancel()
	eventually(t, "the place of a cancelled client is free again", func() bool { return f.subscribers() == 0 })
	open(t, testContext(t), c)
}

// pacer publishes no faster than one reader reads, so that this reader never lags.
type pacer struct {
	hub    *Hub
	reader eventStream
	next   int
	bytes  int // the size of the events so far
}

// publish sends n events and lets the reader receive each of them.
func (p *pacer) publish(t *testing.T, n int) {
	t.Helper()
	for range n {
		e, want := join("n1"), "JOIN n1"
		if p.next%2 == 1 {
			e, want = left("n1"), "LEFT n1"
		}
		e.Source = fmt.Sprint(p.next)
		e.Node.Addresses = map[string]string{"padding": strings.Repeat("x", 2000)}
		p.next++
		p.hub.Publish(e)
		p.bytes += proto.Size(wantEvent(t, p.reader, want))
	}
}

// readPrefix receives until the stream fails, and checks that the events before the error are numbered 0, 1, 2, ...
// without a gap.
func readPrefix(t *testing.T, stream eventStream) (int, error) {
	t.Helper()
	for i := 0; ; i++ {
		ev, err := stream.Recv()
		if err != nil {
			return i, err
		}
		if ev.GetSourceName() != strconv.Itoa(i) {
			t.Fatalf("event %d has number %s: the stream was thinned", i, ev.GetSourceName())
		}
	}
}

// TestStuckReaderIsEndedAndDelaysNobody has a client that never calls Recv, so that Send blocks on flow control.
// Another client reads, once on its own connection and once on the connection of the stuck client.
func TestStuckReaderIsEndedAndDelaysNobody(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared connection %t", shared), func(t *testing.T) {
			const queue = 256 // of padded events: far more than the transport can buffer
			f := serve(t, HubConfig{QueueLength: queue}, Config{})
			f.hub.Update(nil, nil)
			ctx, c := testContext(t), f.client(t)
			stuck, _ := open(t, ctx, c)
			if !shared {
				c = f.client(t)
			}
			healthy, _ := open(t, ctx, c)
			p := &pacer{hub: f.hub, reader: healthy}
			for f.subscribers() == 2 {
				p.publish(t, 64)
			}
			p.publish(t, 256)

			if p.bytes <= 64<<10 {
				t.Errorf("only %d bytes of events: the transport may have taken them all", p.bytes)
			}
			n, err := readPrefix(t, stuck)
			if status.Code(err) != codes.ResourceExhausted {
				t.Fatalf("the stuck stream ended with %v", err)
			}
			if n == 0 || n >= p.next-256 {
				t.Errorf("it had received %d of %d events", n, p.next)
			}
			p.publish(t, 16)
			if f.subscribers() != 1 {
				t.Errorf("%d subscribers are left, want the healthy one", f.subscribers())
			}
		})
	}
}

// running reports whether the stack of some goroutine shows all of the functions.
func running(functions ...string) bool {
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if !slices.ContainsFunc(functions, func(f string) bool { return !strings.Contains(stack, f) }) {
			return true
		}
	}
	return false
}

// TestBlockedSendReturns: a reader does not read, even when its stream is ended. Neither the handler nor the sender may
// remain in the server.
func TestBlockedSendReturns(t *testing.T) {
	const queue = 1 << 13
	f := serve(t, HubConfig{QueueLength: queue}, Config{})
	f.hub.Update(nil, nil)
	open(t, t.Context(), f.client(t)) // no deadline: it would end the stream as well
	for range queue / 2 {
		f.hub.Publish(join("n1"), left("n1"))
	}
	// If this check gives up although the test below would pass, grpc has renamed its quota.
	eventually(t, "Send is blocked by flow control", func() bool { return running("(*Server).deliver", "(*writeQuota).get") })
	for i := 0; f.subscribers() > 0; i++ {
		f.hub.Publish(join("n1"), left("n1"))
		if i > queue {
			t.Fatal("the stuck reader was never ended")
		}
	}
	eventually(t, "the handler has returned", func() bool { return !running("(*Server).StreamEvents") })
	eventually(t, "the sender has returned", func() bool { return !running("(*Server).deliver") })
	f.server.senders.Wait()
}

// frozenConn stops reading from the socket on request, like a process that was stopped by a signal: the kernel's buffer
// fills and the server's writes block.
type frozenConn struct {
	net.Conn
	frozen chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (c *frozenConn) Read(p []byte) (int, error) {
	select {
	case <-c.frozen:
		<-c.closed
		return 0, net.ErrClosed
	default:
		return c.Conn.Read(p)
	}
}

func (c *frozenConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func TestFrozenProcessDelaysNobody(t *testing.T) {
	f := serve(t, HubConfig{QueueLength: 256}, Config{})
	f.hub.Update(nil, nil)
	ctx := testContext(t)
	frozen := make(chan struct{})
	sleeper := fencingv1.NewFencingClient(f.dial(t, func(c net.Conn) net.Conn {
		return &frozenConn{Conn: c, frozen: frozen, closed: make(chan struct{})}
	}))
	open(t, ctx, sleeper)
	close(frozen)
	healthy, _ := open(t, ctx, f.client(t))
	p := &pacer{hub: f.hub, reader: healthy}
	for f.subscribers() == 2 {
		p.publish(t, 64)
	}
	p.publish(t, 256)
}

func TestStopDeliversWhatIsQueued(t *testing.T) {
	f := serve(t, HubConfig{}, Config{})
	f.hub.Update(nodes("n1", "n2"), nil)
	stream, _ := open(t, testContext(t), f.client(t))
	f.hub.Publish(left("n1"), left("n2"))
	if err := f.server.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	wantEvent(t, stream, "LEFT n1")
	wantEvent(t, stream, "LEFT n2")
	wantEnd(t, stream, codes.Unavailable)
}

func TestStopCutsAStuckReaderAtTheDeadline(t *testing.T) {
	f := serve(t, HubConfig{QueueLength: 1 << 16}, Config{})
	f.hub.Update(nil, nil)
	stream, _ := open(t, testContext(t), f.client(t))
	for range 5000 { // much more than the transport can buffer, less than the queue
		f.hub.Publish(join("n1"), left("n1"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := f.server.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Stop: %v", err)
	}
	for {
		if _, err := stream.Recv(); err != nil {
			if status.Code(err) != codes.Unavailable {
				t.Errorf("the client's stream ended with %v", err)
			}
			return
		}
	}
}
