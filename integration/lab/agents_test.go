package lab

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

// agentMain is a substitute for the agent: it reads its file as the agent does, checks that it runs where the file
// says, and answers on the socket.
func agentMain(file string) int {
	cfg, _, err := config.Load(file, os.Getenv)
	if err == nil {
		err = checkPlace(cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	os.Remove(cfg.API.Socket)
	socket, err := net.Listen("unix", cfg.API.Socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	if err := server.Serve(socket); err != nil {
		return 1
	}
	return 0
}

// checkPlace compares the interfaces of this namespace with the list of members.
func checkPlace(cfg *config.Config) error {
	for _, m := range cfg.Members.Static {
		if m.Name != cfg.NodeName {
			continue
		}
		for _, network := range cfg.SystemNetworks {
			i, err := net.InterfaceByName(network.At.Interface)
			if err != nil {
				return err
			}
			addresses, err := i.Addrs()
			if err != nil {
				return err
			}
			if want := m.Addresses[network.Name].String() + "/24"; !strings.Contains(fmt.Sprint(addresses), want) {
				return fmt.Errorf("interface %s has %v, want %s", network.At.Interface, addresses, want)
			}
		}
		return nil
	}
	return fmt.Errorf("roster lacks node %s", cfg.NodeName)
}

func newAgents(t *testing.T, override map[string]any) *Agents {
	t.Helper()
	dir, err := os.MkdirTemp("", "fa") // t.TempDir is too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := New(Config{Nodes: []string{"n1", "n2"}, Networks: []string{"mgmt", "data"}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	a, err := NewAgents(l, "/proc/self/exe", AgentConfig{
		Dir: dir, LUN: func(string) string { return "/dev/loop0" }, HTTP: "127.0.0.1:9110", Override: override,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func serving(t *testing.T, client *grpc.ClientConn) bool {
	t.Helper()
	_, err := grpc_health_v1.NewHealthClient(client).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	return err == nil
}

func TestAgents(t *testing.T) {
	needLab(t)
	a := newAgents(t, nil)
	client, err := a.Status("n2")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, node := range a.Nodes() {
		if err := a.Start(node); err != nil {
			t.Fatal(err)
		}
	}
	up := func() bool { return serving(t, client) }
	eventually(t, "n2 answers", up)
	if err := a.Kill("n2"); err != nil {
		t.Fatal(err)
	}
	if err := a.Exited("n2"); err != nil {
		t.Errorf("killed on purpose, yet: %v", err)
	}
	if up() {
		t.Error("killed agent answers")
	}
	if err := a.Start("n2"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "n2 answers again on the old connection", up)
	for _, hint := range a.Hints("n1") {
		t.Log(hint)
	}
}

func TestAgentThatEndsByItselfIsReportedWithItsLog(t *testing.T) {
	needLab(t)
	a := newAgents(t, map[string]any{"reachability": "sometimes"})
	if err := a.Start("n1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "n1 has ended", func() bool { return a.Exited("n1") != nil })
	if err := a.Exited("n1"); !strings.Contains(err.Error(), "exit status 2") || !strings.Contains(err.Error(), "sometimes") {
		t.Errorf("report %q lacks the exit status or the log", err)
	} else {
		t.Log(err)
	}
	if err := a.Kill("n2"); err == nil {
		t.Error("kill of an agent that was never started: no error")
	}
}

func TestAgentConfigRefusesLongSocketPaths(t *testing.T) {
	c := AgentConfig{Dir: "/tmp/" + strings.Repeat("x", 100), Nodes: []string{"n1"}}
	if err := c.Write(); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("error %v, want one that says what to do", err)
	}
}
