package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// scripted is an agent that answers each stream as the test prescribes.
type scripted struct {
	fencingv1.UnimplementedFencingServer
	streams  []func(grpc.ServerStreamingServer[fencingv1.Event]) error
	calls    atomic.Int32
	open     atomic.Bool // headers are being sent
	revision string      // the revision of GetAll's answer
	nodes    []string
	early    atomic.Bool // GetAll came before a stream was open
}

func (s *scripted) GetAll(ctx context.Context, _ *emptypb.Empty) (*fencingv1.AllNodes, error) {
	if !s.open.Load() {
		s.early.Store(true)
	}
	all := new(fencingv1.AllNodes)
	for _, n := range s.nodes {
		all.Nodes = append(all.Nodes, &fencingv1.Node{Name: n})
	}
	if s.revision != "" {
		if err := grpc.SetHeader(ctx, metadata.Pairs(publish.RevisionHeader, s.revision)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s *scripted) StreamEvents(_ *emptypb.Empty, stream grpc.ServerStreamingServer[fencingv1.Event]) error {
	i := int(s.calls.Add(1)) - 1
	if i >= len(s.streams) {
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	return s.streams[i](stream)
}

// serve starts the scripted agent.
func (s *scripted) serve(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(socketFolder(t), "agent.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	fencingv1.RegisterFencingServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	return path
}

// begin sends the headers and then LEFT of the nodes.
func (s *scripted) begin(stream grpc.ServerStreamingServer[fencingv1.Event], header metadata.MD, gone ...string) error {
	s.open.Store(true) // before sending: the client may answer the headers before this goroutine goes on
	if err := stream.SendHeader(header); err != nil {
		return err
	}
	for _, n := range gone {
		err := stream.Send(&fencingv1.Event{Type: fencingv1.EventType_LEFT, Time: timestamppb.New(noon), Node: &fencingv1.Node{Name: n}})
		if err != nil {
			return err
		}
	}
	return nil
}

// TestNoGapAndNothingTwice: GetAll is called when the stream is open. Events that its answer already contains are not
// printed again, if the agent tells how many that are.
func TestNoGapAndNothingTwice(t *testing.T) {
	for _, tt := range []struct {
		name, from, to string
		want           []string
	}{
		{"counted", "5", "7", []string{"c", "d"}},
		{"nothing between", "7", "7", []string{"a", "b", "c", "d"}},
		{"not counted", "", "", []string{"a", "b", "c", "d"}},
		{"nonsense", "x", "7", []string{"a", "b", "c", "d"}},
		{"backwards", "9", "7", []string{"a", "b", "c", "d"}}, // another agent took over between the calls
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &scripted{revision: tt.to, nodes: []string{"c", "d", "e"}}
			s.streams = append(s.streams, func(stream grpc.ServerStreamingServer[fencingv1.Event]) error {
				header := metadata.MD{}
				if tt.from != "" {
					header = metadata.Pairs(publish.RevisionHeader, tt.from)
				}
				if err := s.begin(stream, header, "a", "b", "c", "d"); err != nil {
					return err
				}
				<-stream.Context().Done()
				return nil
			})
			w := watch(t, s.serve(t), newOutput(), events(formatTable))
			w.stdout.until(t, "all lines", lines(3+len(tt.want)))
			w.cancel()
			if err := w.waitEnd(t); err != nil {
				t.Error(err)
			}
			var want strings.Builder
			for _, n := range []string{"c", "d", "e"} {
				fmt.Fprintf(&want, "2026-03-01 12:00:00.000  NOW   %s\n", n)
			}
			for _, n := range tt.want {
				fmt.Fprintf(&want, "2026-03-01 12:00:00.000  LEFT  %s\n", n)
			}
			wantText(t, "stdout", w.stdout.String(), want.String())
			if s.early.Load() {
				t.Error("GetAll was called before the stream stood")
			}
		})
	}
}

// TestHowStreamsEnd: the watch tries again after a fault that passes, and after no other fault.
func TestHowStreamsEnd(t *testing.T) {
	for _, tt := range []struct {
		name   string
		end    error
		passes bool
		want   string
	}{
		{"unavailable", status.Error(codes.Unavailable, "away"), true, ": away"},
		{"exhausted", status.Error(codes.ResourceExhausted, "slow"), true, ": slow"},
		{"internal", status.Error(codes.Internal, "oops \x1b[2J"), true, ": oops ?[2J"},
		{"ended", nil, true, "the agent ended the stream"},
		{"denied", status.Error(codes.PermissionDenied, "not you"), false, "PermissionDenied: not you"},
	} {
		for _, headers := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, headers %t", tt.name, headers), func(t *testing.T) {
				s := &scripted{nodes: []string{"n1"}}
				s.streams = append(s.streams, func(stream grpc.ServerStreamingServer[fencingv1.Event]) error {
					if headers {
						if err := s.begin(stream, metadata.MD{}); err != nil {
							return err
						}
					}
					return tt.end
				}, func(stream grpc.ServerStreamingServer[fencingv1.Event]) error {
					if err := s.begin(stream, metadata.MD{}, "n1"); err != nil {
						return err
					}
					<-stream.Context().Done()
					return nil
				})
				w := watch(t, s.serve(t), newOutput(), events(formatTable))
				if !tt.passes {
					if err := w.waitEnd(t); err == nil || !strings.Contains(err.Error(), tt.want) {
						t.Errorf("ended with %v, want %s", err, tt.want)
					}
					return
				}
				w.pausing(t)
				if got := w.stderr.String(); !strings.Contains(got, tt.want) {
					t.Errorf("stderr %q, want %q", got, tt.want)
				}
				w.resume <- struct{}{}
				w.stdout.until(t, "the next stream", lines(2))
			})
		}
	}
}
