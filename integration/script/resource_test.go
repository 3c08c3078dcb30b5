package script

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// cmdSignal is "signal NODE STOP|CONT": it freezes a process, or continues it.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}
	if neg || len(args) != 2 || signals[args[1]] == 0 {
		ts.Fatalf("usage: signal NODE STOP|CONT")
	}
	ts.Check(stateOf(ts).process(ts, args[0]).cmd.Process.Signal(signals[args[1]]))
}

// cmdCrowd is "crowd NODE N": N subscribers come at once, on separate connections, and stay until the script ends. The
// agent serves as many as it can, and must refuse the rest with RESOURCE_EXHAUSTED.
func cmdCrowd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: crowd NODE N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	var clients sync.WaitGroup
	var refused atomic.Int64
	var other atomic.Value // of string
	socket := "unix://" + ts.MkAbs(args[0]+".sock")
	for range n {
		clients.Go(func() {
			err := subscribe(ctx, socket)
			switch {
			case ctx.Err() != nil: // it was served until the end of the script
			case status.Code(err) == codes.ResourceExhausted:
				refused.Add(1)
			default:
				other.Store(fmt.Sprint(err))
			}
		})
	}
	ts.Defer(func() {
		cancel()
		clients.Wait()
	})
	poll(ts, args[0], func() string {
		if text := other.Load(); text != nil {
			return "neither served nor refused: " + text.(string)
		}
		if got, want := int(refused.Load()), n-publish.DefaultMaxSubscribers; got != want {
			return fmt.Sprintf("%d of %d subscribers are refused, want %d", got, n, want)
		}
		return ""
	})
}

// subscribe follows the events of an agent until the stream ends.
func subscribe(ctx context.Context, socket string) error {
	conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the subscriber leaves
	stream, err := fencingv1.NewFencingClient(conn).StreamEvents(ctx, &emptypb.Empty{}, grpc.WaitForReady(true))
	for err == nil {
		_, err = stream.Recv()
	}
	return err
}
