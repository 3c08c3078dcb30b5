package lab

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"
)

// The wire reads what passes on a network, and what it sends passes a cut.
func TestWire(t *testing.T) {
	needLab(t)
	n := newNetwork4(t)
	w, err := n.Lab.Wire()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	listen := func(node string) (c *net.UDPConn) {
		err := n.Do(node, func() (err error) {
			c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(n.Address(node, "data"), 4000)))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	from, to := listen("n1"), listen("n3")
	receive := func() {
		t.Helper()
		if err := to.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		size, sender, err := to.ReadFromUDPAddrPort(b)
		if err != nil || string(b[:size]) != "over the wire" || sender.Addr().Unmap() != n.Address("n1", "data") {
			t.Errorf("%q from %v, %v", b[:size], sender, err)
		}
	}
	if _, err := from.WriteToUDPAddrPort([]byte("over the wire"), to.LocalAddr().(*net.UDPAddr).AddrPort()); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 2000)
	for {
		size, node, network, err := w.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasSuffix(b[:size], []byte("over the wire")) {
			continue
		}
		if node != 0 || network != 1 {
			t.Errorf("sent by node %d on network %d", node, network)
		}
		receive()
		changed(t)(n.Cut(half))
		// A card would have computed this checksum.
		b[14+20+6], b[14+20+7] = 0, 0
		if err := w.Send(b[:size], 2, 1); err != nil {
			t.Fatal(err)
		}
		break
	}
	receive()
	mac, err := w.Hardware(2, 1)
	if err != nil || len(mac) != 6 {
		t.Errorf("hardware address %v, %v", mac, err)
	}
}
