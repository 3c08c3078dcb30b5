package fencingv1_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// follow calls use with the set of available nodes, first as it is and then after every
// change, until the stream ends. The caller keeps the last set and calls follow again.
func follow(ctx context.Context, c fencingv1.FencingClient, use func(map[string]*fencingv1.Node)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream if GetAll fails

	stream, err := c.StreamEvents(ctx, &emptypb.Empty{})
	if err != nil {
		return err
	}
	if _, err := stream.Header(); err != nil { // once they are here, no later event is missed
		return err
	}
	all, err := c.GetAll(ctx, &emptypb.Empty{})
	if err != nil {
		return err
	}
	nodes := make(map[string]*fencingv1.Node)
	for _, n := range all.GetNodes() {
		nodes[n.GetName()] = n
	}
	for {
		use(nodes)
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		switch event.GetType() {
		case fencingv1.EventType_JOIN:
			nodes[event.GetNode().GetName()] = event.GetNode()
		case fencingv1.EventType_LEFT:
			delete(nodes, event.GetNode().GetName())
		}
	}
}

func Example_follow() {
	folder, err := os.MkdirTemp("", "api")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	socket := filepath.Join(folder, "fencing-agent.sock")
	hub, stop := agent(socket)

	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	leave := []string{"node-2", "node-3"}
	err = follow(context.Background(), fencingv1.NewFencingClient(conn), func(nodes map[string]*fencingv1.Node) {
		fmt.Println(slices.Sorted(maps.Keys(nodes)))
		if len(leave) == 0 {
			go stop()
			return
		}
		hub.Publish(publish.Edge{Type: fencingv1.EventType_LEFT, Node: publish.Node{Name: leave[0]}})
		leave = leave[1:]
	})
	fmt.Println("the stream ended:", status.Code(err))
	// Output:
	// [node-1 node-2 node-3]
	// [node-1 node-3]
	// [node-1]
	// the stream ended: Unavailable
}

// agent serves three nodes on the socket.
func agent(socket string) (hub *publish.Hub, stop func()) {
	hub = publish.NewHub(publish.HubConfig{Source: "node-1"})
	server, err := publish.New(publish.Config{Hub: hub})
	if err != nil {
		panic(err)
	}
	listener, err := publish.Listen(socket, 0o600, "")
	if err != nil {
		panic(err)
	}
	go func() {
		if err := server.Serve(listener); err != nil {
			panic(err)
		}
	}()
	hub.Update([]publish.Node{{Name: "node-1"}, {Name: "node-2"}, {Name: "node-3"}}, nil)
	return hub, func() {
		if err := server.Stop(context.Background()); err != nil {
			panic(err)
		}
	}
}

// TestGuideShowsThisCode: what consumers copy from docs/api.md is what runs here.
func TestGuideShowsThisCode(t *testing.T) {
	here, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "api.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(here), "\nfunc follow(")
	code, _, ok := strings.Cut(code, "\n}\n")
	if !ok || !strings.Contains(string(guide), "func follow("+code+"\n}\n") {
		t.Error("docs/api.md does not show the function follow as it is in example_test.go: copy it there")
	}
}
