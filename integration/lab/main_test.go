package lab

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// These are the roles of the test binary when it is started as a child. The first argument selects one.
const (
	roleOwner    = "lab-owner"    // builds a lab with processes, prints their ids and stays
	roleSleep    = "lab-sleep"    // prints a greeting and waits for a signal
	roleOrdinary = "lab-ordinary" // does what an ordinary user's program does
	roleBoot     = "lab-boot"     // ExecInBoot
	roleShowBoot = "lab-showboot" // prints the boot id
	roleAgent    = "--config"     // is a substitute for the agent's binary
)

func TestMain(m *testing.M) {
	role := ""
	if len(os.Args) > 1 {
		role = os.Args[1]
	}
	switch role {
	case roleBoot:
		fmt.Fprintln(os.Stderr, ExecInBoot(os.Args[2:]))
		os.Exit(1)
	case roleShowBoot:
		text, err := os.ReadFile(bootID)
		fmt.Println("boot", string(text), err)
		os.Exit(0)
	case roleOwner:
		os.Exit(ownerMain())
	case roleSleep:
		os.Exit(sleepMain())
	case roleOrdinary:
		os.Exit(ordinaryMain())
	case roleAgent:
		os.Exit(agentMain(os.Args[2]))
	}
	// For an ordinary user, all tests run inside a separate user namespace.
	if Probe() != nil && !InUserNamespace() && CanReexec() == nil {
		fmt.Fprintln(os.Stderr, Reexec())
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// needLab skips the test if labs cannot be built, and says why.
func needLab(t *testing.T) {
	t.Helper()
	if err := Probe(); err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
}

// helper returns the command that runs this test binary in a role.
func helper(args ...string) *exec.Cmd { return exec.Command("/proc/self/exe", args...) }

const (
	testPort = 7000
	patience = time.Minute // for what must happen; a busy machine is slow
	lull     = 300 * time.Millisecond
)

// network4 is a lab of four nodes on two networks with a listener on every address.
type network4 struct {
	*Lab
	t testing.TB

	mu  sync.Mutex
	got map[string]chan struct{} // by payload; closed when it arrives
}

func newNetwork4(t testing.TB, names ...string) *network4 {
	t.Helper()
	if len(names) == 0 {
		names = []string{"n1", "n2", "n3", "n4"}
	}
	l, err := New(Config{Nodes: names, Networks: []string{"mgmt", "data"}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	n := &network4{Lab: l, t: t, got: map[string]chan struct{}{}}
	var readers sync.WaitGroup
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		readers.Wait()
	})
	for _, node := range l.Nodes() {
		for _, network := range l.Networks() {
			conn := n.listen(node, network)
			t.Cleanup(func() { conn.Close() })
			readers.Go(func() { n.read(conn) })
		}
	}
	return n
}

func (n *network4) listen(node, network string) (conn net.PacketConn) {
	n.t.Helper()
	err := n.Do(node, func() (err error) {
		conn, err = net.ListenPacket("udp4", n.target(node, network))
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return conn
}

func (n *network4) target(node, network string) string {
	return netip.AddrPortFrom(n.Address(node, network), testPort).String()
}

func (n *network4) read(conn net.PacketConn) {
	buf := make([]byte, 256)
	for {
		k, _, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		n.mu.Lock()
		if c, ok := n.got[string(buf[:k])]; ok {
			delete(n.got, string(buf[:k]))
			close(c)
		}
		n.mu.Unlock()
	}
}

// reaches sends the same datagram repeatedly until one arrives or the time is up.
func (n *network4) reaches(from, to, network string, within time.Duration) bool {
	n.t.Helper()
	conn, err := n.Dial(n.t.Context(), from, "udp4", n.target(to, network))
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	payload := conn.LocalAddr().String() + " " + conn.RemoteAddr().String() + " " + time.Now().String()
	arrived := make(chan struct{})
	n.mu.Lock()
	n.got[payload] = arrived
	n.mu.Unlock()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	end := time.After(within)
	for {
		if _, err := conn.Write([]byte(payload)); err != nil {
			n.t.Logf("%s -> %s on %s: %v", from, to, network, err)
		}
		select {
		case <-arrived:
			return true
		case <-end:
			n.mu.Lock()
			delete(n.got, payload)
			n.mu.Unlock()
			return false
		case <-again.C:
		}
	}
}

// expect checks that, in every direction between two nodes on a network, packets pass or not as wanted.
func (n *network4) expect(network string, want func(from, to string) bool) {
	n.t.Helper()
	var wg sync.WaitGroup
	for _, from := range n.Nodes() {
		for _, to := range n.Nodes() {
			if from == to {
				continue
			}
			wg.Go(func() {
				within := lull
				if want(from, to) {
					within = patience
				}
				if got := n.reaches(from, to, network, within); got != want(from, to) {
					n.t.Errorf("%s -> %s on %s: packets pass: %v, want %v", from, to, network, got, want(from, to))
				}
			})
		}
	}
	wg.Wait()
}

func everybody(string, string) bool { return true }

func halves(from, to string) bool { return (from <= "n2") == (to <= "n2") }
