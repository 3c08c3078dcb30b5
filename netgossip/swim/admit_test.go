package swim_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
)

// Packets and streams that do not come from another member's address are refused unread, counted, and logged once a
// minute.
func TestForeignSourcesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCluster(t, 2, nil)
		c.awaitComplete(5 * time.Second)
		n1 := c.nodes[0]
		list := attacker(t, c.net, 9)
		to := memberlist.Address{Addr: netip.AddrPortFrom(n1.addr, testPort).String(), Name: "n001"}
		before := n1.Stats()
		for range 150 { // 75 s
			if err := list.SendToAddress(to, []byte("anything")); err != nil {
				t.Fatal(err)
			}
			<-time.After(500 * time.Millisecond)
		}
		if got := n1.refused(t, "source"); got != 150 {
			t.Errorf("%v packets refused for their source, want 150", got)
		}
		if _, err := list.Join([]string{to.Name + "/" + to.Addr}); err == nil {
			t.Error("a stranger joined")
		}
		if got := n1.refused(t, "source"); got != 151 {
			t.Errorf("%v refused for their source, want the stream as well", got)
		}
		for _, reason := range []string{"malformed", "label", "key", "stranger", "cut"} {
			if got := n1.refused(t, reason); got != 0 {
				t.Errorf("%v %s: something of a stranger was read", got, reason)
			}
		}
		if got := n1.logs.count("from an address that no other member has"); got != 2 {
			t.Errorf("logged %d times in 75 s", got)
		}
		if got := n1.Stats(); got.LastPacket == before.LastPacket || got.Members != 2 {
			t.Errorf("the peer was not heard meanwhile: %+v", got)
		}
	})
}

// Guard: only the roster defines the group. A member with the right label and key, or an attacker who took it over,
// cannot bring in any node: neither a stranger nor a member's name at another address.
func TestHearsayBringsNobodyIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		n1 := c.nodes[0]
		n1.start(t)
		liar := attacker(t, c.net, 1) // at the address of n2, but with another name
		to := []string{"n001/" + netip.AddrPortFrom(n1.addr, testPort).String()}
		if _, err := liar.Join(to); err != nil {
			t.Fatal(err)
		}
		if got := n1.refused(t, "stranger"); got == 0 {
			t.Error("no stranger counted")
		}
		// This node has a table with n3 at another address.
		other := configure(t, 3, 2, memory, c.net.Listen, func(cfg *swim.Config) { cfg.BindAddr = memory(7) })
		other.cfg.AnySource = true
		other.start(t)
		defer other.stop(t, false)
		if _, err := liar.Join([]string{"n003/" + netip.AddrPortFrom(memory(7), testPort).String()}); err != nil {
			t.Fatal(err)
		}
		if _, err := liar.Join(to); err != nil {
			t.Fatal(err)
		}
		key := "n003 " + netip.AddrPortFrom(memory(7), testPort).String()
		c.await(5*time.Second, "n1 raises the alarm", func() (seen bool) {
			n1.sink.view(func() { seen = n1.sink.conflicts[key] > 0 })
			return seen
		})
		<-time.After(time.Minute)
		if got := n1.Stats().Members; got != 1 {
			t.Errorf("n1 lists %d members", got)
		}
		n1.sink.view(func() {
			if len(n1.sink.changes) > 0 {
				t.Errorf("n1 reports %v", n1.sink.changes)
			}
		})
		if err := liar.Shutdown(); err != nil {
			t.Fatal(err)
		}
	})
}

// A peer that opens a stream and closes it again is not counted as one with a wrong label.
func TestMuteStreamHasNoForeignLabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, nil)
		n1 := c.nodes[0]
		n1.start(t)
		peer, err := c.net.Listen(netip.AddrPortFrom(memory(1), testPort))
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Shutdown()
		for i, sent := range []string{"", "\xf4", "\xf4\x10clus"} { // nothing, and parts of a label
			s, err := peer.DialAddressTimeout(memberlist.Address{Addr: netip.AddrPortFrom(n1.addr, testPort).String()}, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Write([]byte(sent)); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := n1.refused(t, "cut"); got != float64(i+1) {
				t.Errorf("after %q: %v streams counted as cut, want %d", sent, got, i+1)
			}
		}
		if got := n1.refused(t, "label") + n1.refused(t, "malformed"); got != 0 {
			t.Errorf("%v counted as a foreign label, or malformed", got)
		}
	})
}

// wiretap is a Listener that records what its transports send.
type wiretap struct {
	listen swim.Listener
	mu     sync.Mutex
	sent   bytes.Buffer
	counts map[string]int // packets and stream writes
}

func (w *wiretap) note(kind string, b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[kind]++
	w.sent.Write(b)
}

func (w *wiretap) Listen(at netip.AddrPort) (memberlist.NodeAwareTransport, error) {
	tr, err := w.listen(at)
	return tapped{tr, w}, err
}

type tapped struct {
	memberlist.NodeAwareTransport
	tap *wiretap
}

func (t tapped) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	t.tap.note("packet", b)
	return t.NodeAwareTransport.WriteToAddress(b, a)
}

func (t tapped) DialAddressTimeout(a memberlist.Address, d time.Duration) (net.Conn, error) {
	c, err := t.NodeAwareTransport.DialAddressTimeout(a, d)
	if err != nil {
		return nil, err
	}
	return tappedStream{c, t.tap}, nil
}

type tappedStream struct {
	net.Conn
	tap *wiretap
}

func (s tappedStream) Write(b []byte) (int, error) {
	s.tap.note("stream", b)
	return s.Conn.Write(b)
}

// With a key, none of a node's messages is readable on the wire: joins, probes, acknowledgements, suspicions, full
// exchanges, evidence. Without a key all of them are, which shows that the test can find them.
func TestNothingIsInTheClearWithAKey(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("encrypted=%v", encrypted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := netgossiptest.NewNetwork(1)
				network.SetAll(netgossiptest.Link{Delay: 100 * time.Microsecond})
				tap := &wiretap{listen: network.Listen, counts: map[string]int{}}
				c := newCluster(t, 3, func(cfg *swim.Config) {
					cfg.Transport = tap.Listen
					cfg.Params.PushPullInterval = 5 * time.Second
					if encrypted {
						cfg.Keyring = keyring(t, "k")
					}
				})
				for _, nd := range c.nodes {
					st := *nd.statement.Load()
					st.Version, st.Boot = "v-readable", 0x6d61726b6d61726b // "markmark"
					nd.statement.Store(&st)
					nd.start(t)
				}
				c.awaitComplete(5 * time.Second)
				c.nodes[2].stop(t, false) // suspected, declared dead
				c.await(30*time.Second, "n3 is declared dead", func() bool { return !c.nodes[0].sink.isAlive(2) })
				<-time.After(10 * time.Second)

				tap.mu.Lock()
				defer tap.mu.Unlock()
				if tap.counts["packet"] < 100 || tap.counts["stream"] == 0 {
					t.Fatalf("the tap heard %v", tap.counts)
				}
				wire := tap.sent.String()
				if !strings.Contains(wire, testLabel) {
					t.Error("the label is no secret, but it is not there: this test looks in the wrong place")
				}
				boot := string(binary.LittleEndian.AppendUint64(nil, 0x6d61726b6d61726b))
				for what, secret := range map[string]string{
					"a name": "n002", "the version of a statement": "v-readable", "the boot of a statement": boot,
				} {
					if readable := strings.Contains(wire, secret); readable == encrypted {
						t.Errorf("%s can be read: %v", what, readable)
					}
				}
			})
		})
	}
}

// Keys are rotated node by node while all nodes go on: add, use, remove. At no moment is a packet refused, or evidence
// older than usual.
func TestKeysRotateUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil)
		rings := make([]*memberlist.Keyring, len(c.nodes))
		for i, nd := range c.nodes {
			rings[i] = keyring(t, "o")
			nd.cfg.Keyring = rings[i]
			nd.start(t)
		}
		c.awaitComplete(5 * time.Second)
		fresh := bytes.Repeat([]byte("n"), 32)
		old := bytes.Repeat([]byte("o"), 32)
		for _, step := range []struct {
			name string
			do   func(*memberlist.Keyring) error
		}{
			{"add", func(r *memberlist.Keyring) error { return r.AddKey(fresh) }},
			{"use", func(r *memberlist.Keyring) error { return r.UseKey(fresh) }},
			{"remove", func(r *memberlist.Keyring) error { return r.RemoveKey(old) }},
		} {
			for i, r := range rings {
				if err := step.do(r); err != nil {
					t.Fatal(err)
				}
				for end := time.Now().Add(4 * time.Second); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
					for _, a := range c.nodes {
						for _, b := range c.nodes {
							if age := clock().Sub(a.sink.anchor(b.index)); a != b && age > 2*time.Second {
								t.Fatalf("%s at node %d: evidence of node %d at node %d is %v old", step.name, i, b.index, a.index, age)
							}
						}
					}
				}
			}
		}
		for _, nd := range c.nodes {
			if got := nd.refused(t, "key") + nd.refused(t, "malformed"); got > 0 {
				t.Errorf("node %d refused %v", nd.index, got)
			}
		}
		// The old key opens nothing any more.
		late := attacker(t, c.net, 9)
		if _, err := late.Join([]string{netip.AddrPortFrom(c.nodes[0].addr, testPort).String()}); err == nil {
			t.Error("joined without the key")
		}
	})
}

// Guard: metadata would make a node's table longer than its peers accept (see plainScreen), until its restart.
func TestMetadataIsRefused(t *testing.T) {
	in, _, _ := fuzzed(t, false, false)
	n := memberlist.Node{Name: "n002", Addr: memory(1).AsSlice(), Port: testPort}
	if err := in.NotifyAlive(&n); err != nil {
		t.Error(err)
	}
	n.Meta = make([]byte, 1)
	if err := in.NotifyAlive(&n); err == nil || in.Refused("malformed") != 1 {
		t.Errorf("taken: %v, refused %v", err, in.Refused("malformed"))
	}
}
