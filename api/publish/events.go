package publish

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// RevisionHeader is the response header of GetAll and StreamEvents with the number of events published before the
// answer.
const RevisionHeader = fencingv1.RevisionHeader

func revisionHeader(revision uint64) metadata.MD {
	return metadata.Pairs(RevisionHeader, strconv.FormatUint(revision, 10))
}

func (s *Server) GetAll(ctx context.Context, _ *emptypb.Empty) (*fencingv1.AllNodes, error) {
	nodes, revision, err := s.hub.Nodes()
	if err != nil {
		return nil, statusOf(err)
	}
	if err := grpc.SetHeader(ctx, revisionHeader(revision)); err != nil {
		return nil, err
	}
	return nodes, nil
}

// StreamEvents implements fencing.v1.Fencing. It subscribes before it sends the headers: a client that has received
// them misses no later event.
//
// Send blocks while the client does not read, and only the handler's return ends a blocked Send. So the handler waits
// in parallel, and returns when the subscription is dropped. grpc then queues the status behind the data that is
// already on its way to the client and cancels the stream, and Send returns with an error.
func (s *Server) StreamEvents(_ *emptypb.Empty, stream grpc.ServerStreamingServer[fencingv1.Event]) error {
	sub, err := s.hub.Subscribe()
	if err != nil {
		return statusOf(err)
	}
	defer sub.Close()
	log := s.log.With(peerOf(stream.Context()))
	if err := stream.SendHeader(revisionHeader(sub.Revision)); err != nil {
		return err
	}
	log.Debug("a client has subscribed", "revision", sub.Revision)

	sent := make(chan error, 1)
	s.senders.Go(func() { sent <- s.deliver(sub, stream) })
	select {
	case err = <-sent:
	case <-sub.slow:
		err = ErrSlow
	}
	if errors.Is(err, ErrSlow) {
		log.Warn("a subscriber was cut off: it reads too slowly", "queue", s.hub.cfg.QueueLength)
	} else {
		log.Debug("a subscriber has left", "cause", err)
	}
	return statusOf(err)
}

// deliver sends events until the subscription or the stream ends; it never returns nil.
func (s *Server) deliver(sub *Subscription, stream grpc.ServerStreamingServer[fencingv1.Event]) (err error) {
	defer s.recovered(fencingv1.Fencing_StreamEvents_FullMethodName, &err)
	for {
		q, err := sub.next(stream.Context())
		if err != nil {
			return err
		}
		if err := send(stream, q); err != nil {
			return err
		}
		s.hub.cfg.Metrics.delivery.Observe(time.Since(q.at).Seconds())
	}
}

func send(stream grpc.ServerStreamingServer[fencingv1.Event], q queued) error {
	if q.encoded == nil {
		return stream.Send(q.event)
	}
	return stream.SendMsg(q.encoded)
}
