package client_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/api/client"
	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// printEvents prints one update of the nodes that are available.
func printEvents(u client.Update) {
	for _, e := range u.Edges {
		fmt.Println(e.Type, e.Node.GetName())
	}
	switch {
	case !u.InForce: // use another source, for instance Kubernetes
		fmt.Println("no agent:", u.Err)
	case len(u.Edges) > 0:
		fmt.Println("available:", slices.Sorted(maps.Keys(u.Available)))
	}
}

func ExampleFollow() {
	folder, err := os.MkdirTemp("", "api")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	socket := filepath.Join(folder, "fencing-agent.sock")
	hub, stop := agent(socket)
	defer stop()

	ctx, cancel := context.WithCancel(context.Background())
	err = client.Follow(ctx, client.Config{Socket: socket, Hold: 10 * time.Second}, func(u client.Update) {
		printEvents(u)
		switch {
		case len(u.Available) == 3:
			hub.Publish(publish.Edge{Type: fencingv1.EventType_LEFT, Node: publish.Node{Name: "node-2"}})
		case len(u.Available) == 2:
			cancel()
		}
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// JOIN node-1
	// JOIN node-2
	// JOIN node-3
	// available: [node-1 node-2 node-3]
	// LEFT node-2
	// available: [node-1 node-3]
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
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Stop(over)
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
	_, code, _ := strings.Cut(string(here), "\nfunc printEvents(")
	code, _, ok := strings.Cut(code, "\n}\n")
	if !ok || !strings.Contains(string(guide), "func printEvents("+code+"\n}\n") {
		t.Error("docs/api.md does not show the function printEvents as it is in example_test.go: copy it there")
	}
}
