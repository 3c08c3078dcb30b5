package client

import (
	"context"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// interjecting does something between the stream's headers and GetAll.
type interjecting struct {
	*grpc.ClientConn
	do func()
}

func (c interjecting) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if method == fencingv1.Fencing_GetAll_FullMethodName {
		c.do()
	}
	return c.ClientConn.Invoke(ctx, method, args, reply, opts...)
}

// TestNothingTwice: events that the answer of GetAll already contains are in the stream too, and are not reported
// again: the first of them would lead back to an outdated set.
func TestNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t)
		hub := a.start()
		hub.Update(nodes("n1", "n2", "n3"), nil)
		conn, err := grpc.NewClient("passthrough:///agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return a.dial(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		var told []string
		go func() {
			ended <- Stream(ctx, interjecting{conn, func() { hub.Publish(left("n2"), join("n2"), left("n3")) }},
				func(all *fencingv1.AllNodes, revision uint64) error {
					for _, n := range all.GetNodes() {
						told = append(told, n.GetName())
					}
					if revision != hub.Revision() {
						t.Errorf("revision %d, the agent's is %d", revision, hub.Revision())
					}
					return nil
				},
				func(ev *fencingv1.Event) error {
					told = append(told, ev.GetType().String()+" "+ev.GetNode().GetName())
					return nil
				})
		}()
		synctest.Wait()
		hub.Publish(left("n1"))
		synctest.Wait()
		cancel()
		if err := <-ended; err == nil {
			t.Error("a cancelled stream ends without an error")
		}
		if want := []string{"n1", "n2", "LEFT n1"}; !slices.Equal(told, want) {
			t.Errorf("told were %q, want %q", told, want)
		}
	})
}
