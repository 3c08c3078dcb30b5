package fabric

import (
	"net"
	"os"
	"testing"
	"time"
)

// card plays the part of QEMU.
type card struct {
	*Port
	conn *net.UnixConn
}

func newCard(t *testing.T, f *Fabric, network, machine string, last byte) *card {
	t.Helper()
	p, err := f.Connect(network, machine, net.HardwareAddr{0x52, 0x54, 0, 0, 0, last})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: p.Local, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &card{p, conn}
}

func (c *card) send(t *testing.T, to net.HardwareAddr, text string) {
	t.Helper()
	frame := append(append(append([]byte{}, to...), c.MAC...), 0x88, 0xb5)
	if _, err := c.conn.WriteTo(append(frame, text...), &net.UnixAddr{Name: c.Remote, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
}

func (c *card) want(t *testing.T, text string) {
	t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	frame := make([]byte, 2000)
	n, err := c.conn.Read(frame)
	if err != nil {
		t.Fatalf("%s on %s got nothing, want %q: %v", c.Machine, c.Network, text, err)
	}
	if got := string(frame[14:n]); got != text {
		t.Fatalf("%s on %s got %q, want %q", c.Machine, c.Network, got, text)
	}
}

func TestForwarding(t *testing.T) {
	dir, err := os.MkdirTemp("", "fab")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	f := New(dir)
	defer f.Close()
	a, b, c := newCard(t, f, "mgmt", "a", 1), newCard(t, f, "mgmt", "b", 2), newCard(t, f, "mgmt", "c", 3)
	other := newCard(t, f, "data", "a", 4)

	a.send(t, b.MAC, "one")
	b.want(t, "one")
	everybody := net.HardwareAddr{255, 255, 255, 255, 255, 255}
	a.send(t, everybody, "all")
	b.want(t, "all")
	c.want(t, "all")

	f.Set(Rules{Cut: map[Hop]bool{{"mgmt", "a", "b"}: true}})
	a.send(t, b.MAC, "cut")
	a.send(t, c.MAC, "not cut")
	// By then what a sent before has been forwarded or dropped.
	c.want(t, "not cut")
	b.send(t, a.MAC, "back")
	a.want(t, "back")

	f.Set(Rules{Loss: map[string]float64{"mgmt": 1}})
	a.send(t, b.MAC, "lost")
	a.send(t, c.MAC, "lost")
	other.send(t, everybody, "no other machine is on that network")
	deadline := time.After(10 * time.Second)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for c.Dropped.Load() == 0 {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatal("the loss was not counted")
		}
	}
	f.Set(Rules{})
	a.send(t, b.MAC, "healed")
	b.want(t, "healed")
}

// TestStoppedMachine: a machine that takes no frames must not delay those of others.
func TestStoppedMachine(t *testing.T) {
	dir, err := os.MkdirTemp("", "fab")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	f := New(dir)
	defer f.Close()
	a, b, c := newCard(t, f, "mgmt", "a", 1), newCard(t, f, "mgmt", "b", 2), newCard(t, f, "mgmt", "c", 3)
	for range 2000 { // more than fit in a socket's queue
		a.send(t, b.MAC, "to the stopped one")
	}
	a.send(t, c.MAC, "to the other")
	c.want(t, "to the other")
	if b.Dropped.Load() == 0 {
		t.Error("nothing was dropped: the queue is larger than this test assumes")
	}
}
