package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
)

var half = []string{"n1", "n2"}

func changed(t testing.TB) func(error) {
	return func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAllReachAll(t *testing.T) {
	needLab(t)
	n := newNetwork4(t)
	n.expect("mgmt", everybody)
	n.expect("data", everybody)
}

func TestCutOfOneNetworkKeepsTheOther(t *testing.T) {
	needLab(t)
	n := newNetwork4(t)
	n.expect("data", everybody)
	changed(t)(n.CutNetwork("data", half))
	n.expect("data", halves)
	n.expect("mgmt", everybody)
	if dropped, err := n.Dropped(); err != nil || dropped == 0 {
		t.Errorf("dropped packets: %d, %v; want some", dropped, err)
	}
}

func TestCutReplacesEarlierCut(t *testing.T) {
	needLab(t)
	n := newNetwork4(t)
	changed(t)(n.Cut(half))
	changed(t)(n.CutNetwork("mgmt", []string{"n1", "n3"}, []string{"n2", "n4"}))
	n.expect("data", halves)
	n.expect("mgmt", func(from, to string) bool {
		return strings.Contains("n1n3 n2n4", from+to) || strings.Contains("n1n3 n2n4", to+from)
	})
	changed(t)(n.Heal())
	n.expect("data", everybody)
	n.expect("mgmt", everybody)
}

func TestCutOneWay(t *testing.T) {
	needLab(t)
	n := newNetwork4(t)
	// There was no exchange before: the sending side must be able to resolve the address.
	changed(t)(n.CutOneWay("data", "n1", "n2"))
	n.expect("data", func(from, to string) bool { return from != "n1" || to != "n2" })
	n.expect("mgmt", everybody)
}

func TestIsolateAddsToCuts(t *testing.T) {
	needLab(t)
	n := newNetwork4(t)
	changed(t)(n.CutNetwork("data", half))
	changed(t)(n.Isolate("n4"))
	alone := func(from, to string) bool { return from != "n4" && to != "n4" }
	n.expect("mgmt", alone)
	n.expect("data", func(from, to string) bool { return alone(from, to) && halves(from, to) })
	changed(t)(n.Heal())
	n.expect("data", everybody)
}

func TestCarrierLossIsSeenInside(t *testing.T) {
	needLab(t)
	n := newNetwork4(t)
	awaitCarrier(t, n.Lab, "n3", "data", true)
	if err := n.LinkDown("n3", "data"); err != nil {
		t.Fatal(err)
	}
	awaitCarrier(t, n.Lab, "n3", "data", false)
	awaitCarrier(t, n.Lab, "n3", "mgmt", true)
	awaitCarrier(t, n.Lab, "n2", "data", true)
	if err := n.LinkUp("n3", "data"); err != nil {
		t.Fatal(err)
	}
	awaitCarrier(t, n.Lab, "n3", "data", true)

	if err := n.LinkDown("n3", "mgmt"); err != nil {
		t.Fatal(err)
	}
	changed(t)(n.Heal())
	awaitCarrier(t, n.Lab, "n3", "mgmt", true)
	n.expect("mgmt", everybody)
}

// awaitCarrier asks the kernel as the agent does, for the interface's flag RUNNING.
func awaitCarrier(t *testing.T, l *Lab, node, network string, want bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("carrier of %s on %s = %v", node, network, want), func() bool {
		var running bool
		err := l.Do(node, func() error {
			i, err := net.InterfaceByName(network)
			if err == nil {
				running = i.Flags&net.FlagRunning != 0
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return running == want
	})
}

func TestLoss(t *testing.T) {
	needLab(t)
	n := newNetwork4(t, "n1", "n2")
	n.expect("data", everybody) // the addresses are resolved by now
	changed(t)(n.Loss("data", 100))
	n.expect("data", func(string, string) bool { return false })
	n.expect("mgmt", everybody)
	changed(t)(n.Loss("data", 30))
	got := n.count("n1", "n2", "data", 1000)
	// The mean is 300 of 1000, with a standard deviation of 14.5. A result more than ten of them away is not due to
	// chance.
	if got < 550 || got > 850 {
		t.Errorf("with 30 %% loss %d of 1000 packets arrived, want about 700", got)
	}
	changed(t)(n.Loss("data", 0))
	if got := n.count("n1", "n2", "data", 1000); got != 1000 {
		t.Errorf("without loss %d of 1000 packets arrived", got)
	}
}

// count sends different datagrams and counts arrivals. After each batch it waits until a further datagram has arrived,
// so that no receive buffer overflows.
func (n *network4) count(from, to, network string, packets int) int {
	n.t.Helper()
	conn, err := n.Dial(n.t.Context(), from, "udp4", n.target(to, network))
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	arrivals := make([]chan struct{}, packets)
	for i := range arrivals {
		arrivals[i] = make(chan struct{})
		payload := fmt.Sprintf("%s %d", conn.LocalAddr(), i)
		n.mu.Lock()
		n.got[payload] = arrivals[i]
		n.mu.Unlock()
		if _, err := conn.Write([]byte(payload)); err != nil {
			n.t.Fatal(err)
		}
		if i%50 == 49 && !n.reaches(from, to, network, patience) {
			n.t.Fatal("no packet arrived at all")
		}
	}
	arrived := 0
	for _, c := range arrivals {
		select {
		case <-c:
			arrived++
		default:
		}
	}
	return arrived
}

func TestBadNamesAreErrorsThatListTheRightOnes(t *testing.T) {
	needLab(t)
	n := newNetwork4(t)
	for what, err := range map[string]error{
		"node":      n.Cut([]string{"n9"}),
		"twice":     n.Cut([]string{"n1"}, []string{"n1"}),
		"network":   n.CutNetwork("storage", half),
		"one way":   n.CutOneWay("data", "n1", "n1"),
		"isolate":   n.Isolate(""),
		"loss":      n.Loss("data", 101),
		"link":      n.LinkDown("n1", "lo"),
		"do":        n.Do("n9", func() error { return nil }),
		"dial name": second(n.Dial(t.Context(), "n1", "tcp", "localhost:1")),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		} else {
			t.Log(err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// The largest possible rule set must fit into one netlink transaction.
func TestLargestCut(t *testing.T) {
	needLab(t)
	var nodes []string
	var each [][]string
	for i := range MaxNodes {
		nodes = append(nodes, fmt.Sprintf("n%d", i+1))
		each = append(each, nodes[i:])
		each[i] = each[i][:1]
	}
	l, err := New(Config{Nodes: nodes, Networks: []string{"a", "b", "c", "d"}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	changed(t)(l.Cut(each...))
	changed(t)(l.Heal())
}

// A function that ends its goroutine, as t.FailNow does, must neither hang its caller nor leave a thread in the
// namespace.
func TestDoSurvivesGoexit(t *testing.T) {
	needLab(t)
	n := newNetwork4(t)
	home := readlink(t, threadNetNS)
	var inside string
	err := n.Do("n1", func() error {
		inside, _ = os.Readlink(threadNetNS)
		runtime.Goexit()
		return nil
	})
	if !errors.Is(err, errGoexit) {
		t.Errorf("error %v, want %v", err, errGoexit)
	}
	if inside == home || inside == "" {
		t.Errorf("function ran in namespace %q, the machine's is %q", inside, home)
	}
}
