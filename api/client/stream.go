package client

import (
	"context"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// Stream follows the agent behind conn until the stream ends, and returns why it did. It calls set once, with the
// available nodes and their revision, and then event for each later change; an error of either function ends the stream
// and is returned. Both are called on the caller's goroutine. For an agent that sends no revisions the revision is 0,
// and events that the set already contains may be repeated: applied in order, they lead to the same set.
//
// All calls must reach the same agent, so conn must not reconnect by itself: revisions of two agents cannot be
// compared.
func Stream(ctx context.Context, conn grpc.ClientConnInterface,
	set func(all *fencingv1.AllNodes, revision uint64) error, event func(*fencingv1.Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream when GetAll fails
	events, err := begin(ctx, conn, set)
	if err != nil {
		return err
	}
	for {
		ev, err := events.next()
		if err != nil {
			return err
		}
		if err := event(ev); err != nil {
			return err
		}
	}
}

// events is a stream whose set has been received. Its next belongs to one goroutine at a time.
type events struct {
	stream grpc.ServerStreamingClient[fencingv1.Event]
	known  uint64 // how many of the first events the set contains
}

// begin opens a stream and returns its set. The stream exists until ctx ends, even after an error.
func begin(ctx context.Context, conn grpc.ClientConnInterface, set func(*fencingv1.AllNodes, uint64) error) (*events, error) {
	agent := fencingv1.NewFencingClient(conn)
	stream, err := agent.StreamEvents(ctx, &emptypb.Empty{})
	if err != nil {
		return nil, err
	}
	// Once it has sent the headers, the agent queues every change for this stream. In the other order, a change between
	// the two calls would be lost.
	begin, err := stream.Header()
	if err == nil && begin == nil { // it ended without headers; the reason comes from Recv
		_, err = stream.Recv()
	}
	if err != nil {
		return nil, err
	}
	var at metadata.MD
	all, err := agent.GetAll(ctx, &emptypb.Empty{}, grpc.Header(&at))
	if err != nil {
		return nil, err
	}
	from, ok1 := revisionIn(begin)
	revision, ok2 := revisionIn(at)
	e := &events{stream: stream}
	if ok1 && ok2 && revision > from {
		e.known = revision - from
	}
	return e, set(all, revision)
}

// next waits for the next event that the set does not contain.
func (e *events) next() (*fencingv1.Event, error) {
	for {
		ev, err := e.stream.Recv()
		switch {
		case err != nil:
			return nil, err
		case e.known == 0:
			return ev, nil
		}
		e.known--
	}
}

func revisionIn(header metadata.MD) (uint64, bool) {
	values := header.Get(fencingv1.RevisionHeader)
	if len(values) != 1 {
		return 0, false
	}
	revision, err := strconv.ParseUint(values[0], 10, 64)
	return revision, err == nil
}
