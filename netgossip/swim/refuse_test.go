package swim_test

import (
	"fmt"
	"io"
	"log"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
	"github.com/fencing-agent/fencing-agent/netgossip/swim/wire"
)

// apart checks that two nodes ignore each other.
func apart(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, nd := range nodes {
		if m := nd.Stats().Members; m != 1 {
			t.Errorf("node %d lists %d members", nd.index, m)
		}
		nd.sink.view(func() {
			if len(nd.sink.answers)+len(nd.sink.heard)+len(nd.sink.changes) > 0 {
				t.Errorf("node %d took a refused node for real: %v", nd.index, nd.sink.changes)
			}
		})
	}
}

func TestForeignLabelIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, nil)
		c.nodes[1].cfg.Label = "cluster/group/data"
		for _, nd := range c.nodes {
			nd.start(t)
		}
		<-time.After(150 * time.Second)
		apart(t, c.nodes...)
		for _, nd := range c.nodes {
			if nd.refused(t, "label") < 100 {
				t.Errorf("node %d counts %v refused labels", nd.index, nd.refused(t, "label"))
			}
			if got := nd.logs.count("another cluster, group or network"); got < 2 || got > 3 {
				t.Errorf("node %d logged the label %d times in 2.5 minutes", nd.index, got)
			}
		}
	})
}

func TestForeignKeyIsRefused(t *testing.T) {
	for name, keys := range map[string][2][]string{
		"different keys":       {{"a"}, {"b"}},
		"only one has a key":   {{"a"}, nil},
		"only the other has":   {nil, {"b"}},
		"no key in common":     {{"a", "b"}, {"c", "d"}},
		"primary is not known": {{"a", "b"}, {"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 2, nil)
				for i, nd := range c.nodes {
					if keys[i] != nil {
						nd.cfg.Keyring = keyring(t, keys[i]...)
					}
					nd.start(t)
				}
				<-time.After(30 * time.Second)
				if name == "primary is not known" {
					// Only one direction is readable: the node is heard, but not more.
					for _, nd := range c.nodes {
						if nd.sink.anchor(1-nd.index) != 0 {
							t.Errorf("node %d has evidence", nd.index)
						}
					}
				} else {
					apart(t, c.nodes...)
				}
				refused := 0.0
				for i, nd := range c.nodes {
					n := nd.refused(t, "key") + nd.refused(t, "malformed")
					if keys[i] != nil && name != "primary is not known" && nd.refused(t, "key") == 0 {
						t.Errorf("node %d refused no key", i)
					}
					refused += n
				}
				if refused < 20 {
					t.Errorf("%v packets refused", refused)
				}
			})
		})
	}
}

func TestKeyRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		for i, keys := range [][]string{{"old"[:1], "n"}, {"n", "o"}, {"o", "n"}} {
			c.nodes[i].cfg.Keyring = keyring(t, keys...)
			c.nodes[i].start(t)
		}
		c.awaitComplete(5 * time.Second)
	})
}

func TestConflictOfNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, anySource)
		c.awaitComplete(5 * time.Second)
		impostor := configure(t, 3, 1, memory, c.net.Listen, nil) // a second n2
		impostor.cfg.BindAddr = memory(7)                         // at another address
		impostor.start(t)
		defer impostor.stop(t, false)
		key := "n002 " + netip.AddrPortFrom(memory(7), testPort).String()
		c.await(10*time.Second, "n1 and n3 report the conflict", func() bool {
			for _, i := range []int{0, 2} {
				seen := 0
				c.nodes[i].sink.view(func() { seen = c.nodes[i].sink.conflicts[key] })
				if seen == 0 {
					return false
				}
			}
			return true
		})
		<-time.After(time.Minute)
		impostor.sink.view(func() {
			if len(impostor.sink.answers) > 0 {
				t.Error("the impostor got evidence")
			}
		})
		from := clock()
		c.await(3*time.Second, "the real n2 is not hurt", func() bool {
			return c.nodes[0].sink.anchor(1) > from && c.nodes[1].sink.anchor(0) > from
		})
		if got := c.nodes[0].logs.count("two nodes use one name"); got < 1 || got > 3 {
			t.Errorf("n1 logged the conflict %d times", got)
		}
	})
}

func TestStrangersAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 2, anySource)
		c.awaitComplete(5 * time.Second)
		// A third node whose roster knows us, while ours does not know it.
		stranger := configure(t, 3, 2, memory, c.net.Listen, nil)
		stranger.start(t)
		defer stranger.stop(t, false)
		<-time.After(2 * time.Minute)
		for _, nd := range c.nodes {
			if nd.refused(t, "stranger") < 60 {
				t.Errorf("node %d counts %v strangers", nd.index, nd.refused(t, "stranger"))
			}
			for text, most := range map[string]int{"not on the list of members": 3, "not expected on this network": 3} {
				if got := nd.logs.count(text); got < 1 || got > most {
					t.Errorf("node %d logged %q %d times", nd.index, text, got)
				}
			}
			nd.sink.view(func() {
				if len(nd.sink.alive) != 1 || len(nd.sink.heard) != 1 || len(nd.sink.answers) != 1 {
					t.Errorf("node %d reported the stranger: %v", nd.index, nd.sink.changes)
				}
			})
		}
	})
}

// anySource lets strangers be heard, to test how their packets are handled.
func anySource(cfg *swim.Config) { cfg.AnySource = true }

// attacker is a memberlist at the i-th address without our protocol above it, but with the
// right label.
func attacker(t *testing.T, network *netgossiptest.Network, i int) *memberlist.Memberlist {
	t.Helper()
	at := netip.AddrPortFrom(memory(i), testPort)
	tr, err := network.Listen(at)
	if err != nil {
		t.Fatal(err)
	}
	conf := memberlist.DefaultLANConfig()
	conf.Name, conf.Label, conf.Transport = "attacker", testLabel, tr
	conf.EnableCompression = false // no agent uses it; a compressed packet would be refused unread
	conf.LogOutput = io.Discard
	conf.Logger = log.New(io.Discard, "", 0)
	conf.LogOutput = nil
	conf.AdvertiseAddr, conf.AdvertisePort = at.Addr().String(), int(at.Port())
	list, err := memberlist.Create(conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { list.Shutdown() })
	return list
}

func TestForgedPacketsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, anySource)
		list := attacker(t, c.net, 9)
		n1 := c.nodes[0]
		n1.start(t)
		to := memberlist.Address{Addr: netip.AddrPortFrom(n1.addr, testPort).String(), Name: "n001"}
		packet := func(m wire.Message) []byte {
			b, err := wire.Append(nil, m)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		statement := &netgossip.Statement{RosterDigest: n1.cfg.Roster.Digest}
		wide := &netgossip.Statement{RosterDigest: n1.cfg.Roster.Digest, View: roster.SetOf(3)}
		for reason, b := range map[string][]byte{
			"malformed": []byte("no packet at all"),
			"stranger":  packet(wire.Message{Kind: wire.Probe, ID: 1, Name: "nobody"}),
			"own_name":  packet(wire.Message{Kind: wire.Probe, ID: 1, Name: "n001"}),
			"unmatched": packet(wire.Message{Kind: wire.Answer, ID: 12345, Name: "n002", Statement: statement, Digest: 1}),
			"roster":    packet(wire.Message{Kind: wire.Probe, ID: 1, Member: 1, Roster: wire.RosterTag(n1.cfg.Roster) + 1}),
		} {
			before := n1.refused(t, reason)
			if err := list.SendToAddress(to, b); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Millisecond)
			if got := n1.refused(t, reason) - before; got != 1 {
				t.Errorf("%s counted %v times", reason, got)
			}
		}
		before := n1.refused(t, "malformed")
		for _, b := range [][]byte{
			packet(wire.Message{Kind: wire.Answer, ID: 1, Name: "n002", Statement: wide, Digest: 1}),
			make([]byte, wire.MaxSize+1),
			{},
		} {
			if err := list.SendToAddress(to, b); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Millisecond)
		if got := n1.refused(t, "malformed") - before; got != 3 {
			t.Errorf("%v of 3 malformed packets counted", got)
		}
		n1.sink.view(func() {
			if len(n1.sink.answers) > 0 {
				t.Error("a forged packet made evidence")
			}
			if n1.sink.heard[1] != 0 { // the unmatched reply of n002, which has never answered
				t.Errorf("n2 was heard %d times", n1.sink.heard[1])
			}
		})
	})
}

// Ids match per peer: a reply of n3 to the probe of n2 proves nothing.
func TestReplyOfAnotherPeerIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, anySource)
		n1 := c.nodes[0]
		tap, err := c.net.Listen(netip.AddrPortFrom(memory(1), testPort))
		if err != nil {
			t.Fatal(err)
		}
		defer tap.Shutdown()
		list := attacker(t, c.net, 9)
		n1.start(t)
		statement := &netgossip.Statement{RosterDigest: n1.cfg.Roster.Digest}
		answer := func(sender string) {
			t.Helper()
			p := <-tap.PacketCh()
			body, _, err := memberlist.RemoveLabelHeaderFromPacket(p.Buf)
			if err != nil {
				t.Fatal(err)
			}
			m, err := wire.Decode(body[1:], n1.cfg.Roster, wire.RosterTag(n1.cfg.Roster)) // after memberlist's message type
			if err != nil {
				t.Fatal(err)
			}
			b, err := wire.Append(nil, wire.Message{Kind: wire.Answer, ID: m.ID, Name: sender, Statement: statement, Digest: 1})
			if err != nil {
				t.Fatal(err)
			}
			if err := list.SendToAddress(memberlist.Address{Addr: p.From.String()}, b); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Millisecond)
		}
		answer("n003")
		if n1.sink.anchor(2) != 0 || n1.sink.anchor(1) != 0 {
			t.Error("a reply of n3 to the probe of n2 counts")
		}
		answer("n002")
		if n1.sink.anchor(1) == 0 {
			t.Error("the reply of n2 does not count")
		}
	})
}

func TestMetricsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, nil)
		nd := c.nodes[0]
		data := configure(t, 1, 0, memory, c.net.Listen, func(cfg *swim.Config) {
			cfg.Name, cfg.Label, cfg.Port, cfg.Metrics = "data", "cluster/group/data", testPort+1, nd.cfg.Metrics
		})
		nd.start(t)
		data.start(t)
		defer data.stop(t, false)
		for _, network := range []string{"mgmt", "data"} {
			nd.metric(t, "fencing_agent_network_health_score", "network", network)
			nd.metric(t, "fencing_agent_gossip_probes_total", "network", network)
		}
		families, err := nd.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		series := map[string]int{}
		for _, f := range families {
			if f.GetHelp() == "" {
				t.Errorf("%s has no help text", f.GetName())
			}
			series[f.GetName()] = len(f.GetMetric())
		}
		want := map[string]int{
			"fencing_agent_gossip_packets_total": 4, "fencing_agent_gossip_bytes_total": 4,
			"fencing_agent_gossip_dropped_total": 4, "fencing_agent_gossip_refused_total": 24, "fencing_agent_gossip_probes_total": 2,
			"fencing_agent_gossip_answers_total": 2, "fencing_agent_network_health_score": 2,
			"fencing_agent_gossip_samples_total": 2, "fencing_agent_gossip_missed_samples_total": 2, "fencing_agent_gossip_sweeps_total": 2, "fencing_agent_gossip_mode": 6,
		}
		if fmt.Sprint(series) != fmt.Sprint(want) {
			t.Errorf("series before any traffic:\n got %v\nwant %v", series, want)
		}
	})
}
