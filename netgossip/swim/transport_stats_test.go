package swim_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/goleak"

	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// The age of the last packet from a member is the silence of the network; packets of strangers do not count.
func TestSilenceIsTheAgeOfTheLastPacket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, anySource)
		n1, n2 := c.nodes[0], c.nodes[1]
		n1.start(t)
		<-time.After(5 * time.Second)
		if at := n1.Stats().LastPacket; at != 0 {
			t.Errorf("a packet at %v, from nobody", at)
		}
		n2.start(t)
		c.awaitComplete(20 * time.Second)
		for range 20 {
			<-time.After(time.Second)
			if age := clock().Sub(n1.Stats().LastPacket); age < 0 || age > 2*time.Second {
				t.Errorf("a silence of %v in a healthy network", age)
			}
		}
		c.net.CutBoth(n1.addr, n2.addr)
		<-time.After(10 * time.Millisecond) // packets under way may still arrive
		last := n1.Stats().LastPacket
		list := attacker(t, c.net, 9)
		to := memberlist.Address{Addr: netip.AddrPortFrom(n1.addr, testPort).String(), Name: "n001"}
		for range 10 {
			if err := list.SendToAddress(to, []byte("company?")); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		s := n1.Stats()
		if s.LastPacket != last {
			t.Errorf("the silence was broken after %v", s.LastPacket.Sub(last))
		}
		if n1.refused(t, "malformed") < 10 {
			t.Error("the shouting did not arrive: the test proves nothing")
		}
	})
}

func TestADeviceIsForOwnSockets(t *testing.T) {
	nd := configure(t, 1, 0, loopback, swim.Listen, func(c *swim.Config) { c.Device = "lo" })
	if _, err := swim.New(nd.cfg); err == nil || !strings.Contains(err.Error(), `device "lo" is for sockets of our own`) {
		t.Errorf("error %v", err)
	}
}

func TestRebindIsIgnoredWhereNothingIsPinned(t *testing.T) {
	nd := configure(t, 1, 0, loopback, nil, nil)
	nd.start(t)
	defer nd.stop(t, false)
	nd.Rebind("no-such-card", 99)
	before := nd.Stats()
	nd.Rebind("lo", 1)
	if after := nd.Stats(); after.Refused != before.Refused || nd.logs.count("device") != 0 {
		t.Errorf("stats %+v, logs about a device", after)
	}
}

// The old sockets stay in use while the requested device does not exist.
func TestRebindKeepsWhatItHasUntilItCan(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	c := &cluster{t: t}
	for i := range 2 {
		nd := configure(t, 2, i, loopback, nil, brisk)
		nd.cfg.Device = "lo"
		in, err := swim.New(nd.cfg)
		var pin *swim.PinError
		if errors.As(err, &pin) && pin.Denied() {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		nd.Instance = in
		if err := in.Start(); err != nil {
			t.Fatal(err)
		}
		defer nd.stop(t, false)
		c.nodes = append(c.nodes, nd)
	}
	c.awaitComplete(patience)
	n1 := c.nodes[0]
	const line = "sockets cannot be moved to the device"
	n1.Rebind("no-such-card", 99)
	c.await(patience, "the log tells", func() bool { return n1.logs.count(line) == 1 && n1.logs.count("no such device") == 1 })
	c.awaitComplete(patience)
	n1.Rebind("lo", 1)
	c.awaitComplete(patience)
	if n := n1.logs.count(line); n != 1 {
		t.Errorf("%d lines about one trouble", n)
	}
}
