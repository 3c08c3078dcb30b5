package netgossiptest

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestDropperConforms(t *testing.T) {
	for _, c := range TransportCases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d Dropper
				c.Run(t, d.Over(NewNetwork(1).Listen), addrA, addrB)
			})
		})
	}
}

func TestDropper(t *testing.T) {
	peer := addrB.Addr()
	for name, c := range map[string]struct {
		cut              func(*Dropper)
		out, in, streams bool // what passes
	}{
		"nothing":          {func(*Dropper) {}, true, true, true},
		"both":             {func(d *Dropper) { d.Cut(peer) }, false, false, false},
		"to the peer":      {func(d *Dropper) { d.CutTo(peer) }, false, true, false},
		"from the peer":    {func(d *Dropper) { d.CutFrom(peer) }, true, false, false},
		"another peer":     {func(d *Dropper) { d.Cut(addrC.Addr()) }, true, true, true},
		"healed":           {func(d *Dropper) { d.Cut(peer); d.Heal(peer) }, true, true, true},
		"healed in a lump": {func(d *Dropper) { d.Cut(peer, addrC.Addr()); d.HealAll() }, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d Dropper
				n := NewNetwork(1)
				a, b := mustListen(t, d.Over(n.Listen), addrA), mustListen(t, n.Listen, addrB)
				c.cut(&d)
				sendN(t, a, 1, addrB)
				if got := arrived(b) == 1; got != c.out {
					t.Errorf("packet to the peer passes: %v, want %v", got, c.out)
				}
				sendN(t, b, 1, addrA)
				synctest.Wait()
				got := false
				select {
				case <-a.PacketCh():
					got = true
				default:
				}
				if got != c.in {
					t.Errorf("packet from the peer passes: %v, want %v", got, c.in)
				}
				testDropperStreams(t, &d, a.DialTimeout, addrB, c.streams)
				testDropperStreams(t, &d, b.DialTimeout, addrA, c.streams)
			})
		})
	}
}

// testDropperStreams dials and sees whether the far end leaves the stream open.
func testDropperStreams(t *testing.T, d *Dropper, dial dialer, to netip.AddrPort, want bool) {
	t.Helper()
	before := d.Dropped()
	c, err := dial(to.String(), time.Second)
	if err == nil {
		defer c.Close()
		c.SetReadDeadline(time.Now().Add(time.Second))
		_, err = c.Read(make([]byte, 1))
	}
	// An open stream on which nothing is said runs into the deadline.
	if open := isTimeout(err); open != want {
		t.Errorf("stream to %v is open: %v (%v), want %v", to, open, err, want)
	}
	if !want && d.Dropped() == before {
		t.Error("the refused stream was not counted")
	}
}

func TestDropperBreaksStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d Dropper
		n := NewNetwork(1)
		a, b := mustListen(t, d.Over(n.Listen), addrA), mustListen(t, n.Listen, addrB)
		c, err := a.DialTimeout(addrB.String(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		receive(t, b.StreamCh(), "stream")
		d.Cut(addrB.Addr())
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("a stream survived the cut")
		}
	})
}

type dialer = func(string, time.Duration) (net.Conn, error)

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
