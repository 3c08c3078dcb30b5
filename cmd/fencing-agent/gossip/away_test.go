package gossip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/boottime/boottimetest"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/iface"
	"github.com/fencing-agent/fencing-agent/netgossip/netgossiptest"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// nobody ignores all reports.
type nobody struct{}

func (nobody) MemberChanged(int, int, bool, boottime.Instant) {}
func (nobody) Answered(netgossip.Answer)                      {}
func (nobody) Vouched(int, boottime.Instant)                  {}
func (nobody) Missed(int, int, boottime.Instant, bool)        {}
func (nobody) Heard(int, int, boottime.Instant)               {}
func (nobody) Silent([]netgossip.Silence)                     {}

// host is a node on the networks mgmt and data. A test controls its kernel and ports.
type host struct {
	*Networks
	mu      sync.Mutex
	here    map[string]iface.Local // the interface of each network; without an entry there is none
	taken   map[netip.Addr]bool    // addresses on which another program uses the port
	watched []string               // the watched interfaces, as text
	up      map[int]bool           // whether a network is up, as last reported
	away    map[string]string      // why a network is missing, as last reported; "": it is not missing
	links   int                    // number of reports that a network is up or down
	changes chan iface.Change      // the changes that the kernel reports
}

// list returns the list of n1 and n2. n1 has the addresses mgmt and data, where "" means none; n2 has 10.0.0.2 and
// 10.1.0.2.
func list(t *testing.T, epoch uint64, mgmt, data string) *roster.Roster {
	t.Helper()
	own := map[string]string{}
	for network, a := range map[string]string{"mgmt": mgmt, "data": data} {
		if a != "" {
			own[network] = a
		}
	}
	r, err := roster.New(epoch, []roster.Member{
		{Name: "n1", Addresses: own}, {Name: "n2", Addresses: map[string]string{"mgmt": "10.0.0.2", "data": "10.1.0.2"}},
	}, "n1")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newHost(r *roster.Roster) *host {
	h := &host{here: map[string]iface.Local{}, taken: map[netip.Addr]bool{}, up: map[int]bool{0: true, 1: true}, away: map[string]string{}}
	h.come("mgmt", "10.0.0.1")
	h.come("data", "10.1.0.1")
	c := config.Default()
	c.SystemNetworks = []config.SystemNetwork{
		{Name: "mgmt", At: config.Place{CIDR: netip.MustParsePrefix("10.0.0.0/24")}, Port: 7946}, {Name: "data", At: config.Place{CIDR: netip.MustParsePrefix("10.1.0.0/24")}, Port: 7946},
	}
	wire := netgossiptest.NewNetwork(1)
	h.Networks = New(Config{
		Config: c, Roster: r, Clock: boottimetest.Clock(1), Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
		Listen: func(at netip.AddrPort) (memberlist.NodeAwareTransport, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.taken[at.Addr()] {
				return nil, errors.New("address already in use")
			}
			return wire.Listen(at)
		},
		Links: Links{Find: h.find, Watch: h.watchLinks}, Reports: func(*roster.Roster) Reports { return nobody{} }, Stalled: func() bool { return false },
		LinkChanged: func(network int, up bool) { h.mu.Lock(); defer h.mu.Unlock(); h.up[network] = up; h.links++ },
		Away: func(network string, why error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.away[network] = ""; why != nil {
				h.away[network] = why.Error()
			}
		},
		AddressChanged: func(string, netip.Addr) {},
	})
	return h
}

func (h *host) come(network, address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.here[network] = iface.Local{Network: network, Address: netip.MustParseAddr(address), Interface: "eth-" + network, Index: 2}
}

func (h *host) leave(network string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.here, network)
}

func (h *host) find(q iface.Query) (iface.Local, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, ok := h.here[q.Network]
	if !ok {
		return l, fmt.Errorf("network %s: no local address", q.Network)
	}
	return l, nil
}

func (h *host) watchLinks(ctx context.Context, c iface.WatchConfig) error {
	text := c.Networks[0].Network + " " + c.Networks[0].Address.String()
	h.mu.Lock()
	h.watched = append(h.watched, text)
	h.mu.Unlock()
	changes := h.changes
	if c.Networks[0].Network != "mgmt" {
		changes = nil
	}
	for done := false; !done; {
		select {
		case change := <-changes:
			c.Changed(change)
		case <-ctx.Done():
			done = true
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watched = slices.DeleteFunc(h.watched, func(w string) bool { return w == text })
	return ctx.Err()
}

// run starts the gossip, runs the story and stops the gossip.
func (h *host) run(t *testing.T, story func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	stop, err := h.Start(func(f func(context.Context)) { wg.Go(func() { f(ctx) }) })
	if err != nil {
		t.Errorf("the start ends: %v", err)
	} else {
		synctest.Wait()
		story()
		stop()
	}
	cancel()
	wg.Wait()
	time.Sleep(time.Minute) // in this time memberlist's own goroutines end
}

// expect checks which networks are there, watched and up after a while.
func (h *host) expect(t *testing.T, after time.Duration, mgmt, data string) {
	t.Helper()
	time.Sleep(after)
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, want := range []string{mgmt, data} {
		name := h.all[i].name
		got, watch := "", slices.DeleteFunc(slices.Clone(h.watched), func(w string) bool { return !strings.HasPrefix(w, name+" ") })
		if in := h.all[i].now(); in != nil {
			got = in.local.Address.String()
		}
		if got != want || h.up[i] != (want != "") || (h.away[name] == "") != (want != "") || want != "" && !slices.Equal(watch, []string{name + " " + want}) || want == "" && len(watch) > 0 {
			t.Errorf("%s is at %q, up %v, away because of %q, watched %q; want it at %q", name, got, h.up[i], h.away[name], watch, want)
		}
	}
}

// A network that is away at the start begins as down and is opened when it appears. Nothing waits for it.
func TestNetworksThatAreAwayAreTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(list(t, 1, "10.0.0.1", "10.1.0.1"))
		h.leave("data")
		h.run(t, func() {
			h.expect(t, 0, "10.0.0.1", "")
			h.Announce() // and the other messages to all networks
			h.SetDemand(netgossip.Demand{Others: 1})
			h.Ask(make([]roster.Set, 2))
			h.Fetch([]string{"n2"}, 0, 1, roster.Ref{Epoch: 2})
			if s := h.States(); len(s) != 2 || s[1].Name != "data" || s[1].Local.Address.IsValid() {
				t.Errorf("the states are %+v", s)
			}
			h.come("data", "10.1.0.1")
			h.expect(t, 3*time.Second, "10.0.0.1", "10.1.0.1")
		})
	})
}

func TestAllNetworksMayBeAwayAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(list(t, 1, "10.0.0.1", "10.1.0.1"))
		h.leave("mgmt")
		h.taken[netip.MustParseAddr("10.1.0.1")] = true
		h.run(t, func() {
			h.Fetch([]string{"n2"}, 0, 1, roster.Ref{Epoch: 2})
			h.expect(t, time.Hour, "", "")
			h.mu.Lock()
			h.taken = map[netip.Addr]bool{}
			h.mu.Unlock()
			h.expect(t, 3*time.Second, "", "10.1.0.1")
			h.come("mgmt", "10.0.0.1")
			h.expect(t, 3*time.Second, "10.0.0.1", "10.1.0.1")
		})
	})
}

// If a network cannot be opened when the list changes, the other networks still follow the list.
func TestAListIsFollowedAlthoughANetworkIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(list(t, 1, "10.0.0.1", "10.1.0.1"))
		h.run(t, func() {
			h.leave("mgmt")
			next := list(t, 2, "10.0.0.1", "10.1.0.7")
			h.come("data", "10.1.0.7")
			h.Follow(next)
			h.expect(t, 10*time.Second, "", "10.1.0.7")
			if in := h.all[1].now(); in.roster != next {
				t.Errorf("data counts by %v", in.roster)
			}
			h.come("mgmt", "10.0.0.1")
			h.expect(t, 3*time.Second, "10.0.0.1", "10.1.0.7")
		})
	})
}

// The list holds this node's address. An agent that finds only an unlisted address waits. If it finds the address of
// another member, it does not start.
func TestAddressesThatAreNotTheListedOne(t *testing.T) {
	for name, c := range map[string]struct {
		mgmt, data string // the listed addresses of this node
		at         string // this node's address on data
		says       string // why data is away
		ends       bool   // the start ends with an error
	}{
		"a virtual address is all there is":      {"10.0.0.1", "10.1.0.1", "10.1.0.100", "10.1.0.100 (eth-data), but the list of members has 10.1.0.1", false},
		"the address of another member":          {"10.0.0.1", "10.1.0.1", "10.1.0.2", `which the list of members has for "n2"`, true},
		"no address on this network":             {"10.0.0.1", "", "10.1.0.1", `no address for "n1" on it: add 10.1.0.1`, false},
		"this node is not on the list":           {"", "", "10.1.0.1", "does not have", true},
		"both networks by one interface":         {"10.0.0.1", "10.0.0.1", "10.0.0.1", "which network mgmt uses already", false},
		"the address of a member on another one": {"10.0.0.1", "10.1.0.1", "10.0.0.2", "but the list of members has 10.1.0.1", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(list(t, 1, c.mgmt, c.data))
				h.come("data", c.at)
				if c.ends {
					ctx, cancel := context.WithCancel(t.Context())
					var wg sync.WaitGroup
					_, err := h.Start(func(f func(context.Context)) { wg.Go(func() { f(ctx) }) })
					cancel()
					wg.Wait()
					if err == nil || !strings.Contains(err.Error(), c.says) {
						t.Errorf("it starts: %v, want %q", err, c.says)
					}
					time.Sleep(time.Minute)
					return
				}
				h.run(t, func() {
					h.expect(t, time.Minute, "10.0.0.1", "")
					if why := h.away["data"]; !strings.Contains(why, c.says) {
						t.Errorf("away: %s, want %q", why, c.says)
					}
					if c.data == "10.1.0.1" {
						h.come("data", "10.1.0.1")
						h.expect(t, 3*time.Second, "10.0.0.1", "10.1.0.1")
					}
				})
			})
		})
	}
}

// Where other nodes learn this node's address from its Node, the address may have changed. When the listed address
// comes back, it is used.
func TestAnAddressThatComesBackIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(list(t, 1, "10.0.0.1", "10.1.0.1"))
		h.cfg.AddressesFollow = true
		h.come("data", "10.1.0.100")
		h.run(t, func() {
			h.expect(t, time.Minute, "10.0.0.1", "10.1.0.100")
			h.come("data", "10.1.0.1")
			h.expect(t, 3*time.Second, "10.0.0.1", "10.1.0.1")
		})
	})
}

// The addresses of two nodes were exchanged while both were down, so the lists that they remember are outdated. Where
// others learn addresses from Nodes, each node has to start. Otherwise no Node would ever hold the new address.
func TestAnAddressThatWasAnotherNodesIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(list(t, 1, "10.0.0.1", "10.1.0.1"))
		h.cfg.AddressesFollow = true
		h.come("data", "10.1.0.2")
		h.run(t, func() { h.expect(t, time.Minute, "10.0.0.1", "10.1.0.2") })
	})
}

// A network that is lost while the agent runs is missing with a reason. A new reason is not a new loss.
func TestALostNetworkIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(list(t, 1, "10.0.0.1", "10.1.0.1"))
		h.changes = make(chan iface.Change)
		h.run(t, func() {
			tell := func(up bool, gone error, away string, links int) {
				t.Helper()
				h.mu.Lock()
				local := h.here["mgmt"]
				h.mu.Unlock()
				h.changes <- iface.Change{Up: up, Gone: gone, Local: local}
				synctest.Wait()
				h.mu.Lock()
				defer h.mu.Unlock()
				if h.away["mgmt"] != away || h.up[0] != up || h.links != links {
					t.Errorf("away because of %q, up %v, %d changes; want %q, %v, %d", h.away["mgmt"], h.up[0], h.links, away, up, links)
				}
			}
			h.mu.Lock()
			h.links = 0
			h.mu.Unlock()
			tell(false, errors.New("the interface does not exist"), "the interface does not exist", 1)
			tell(false, errors.New("its address is gone"), "its address is gone", 1)
			tell(true, nil, "", 2)
			tell(false, nil, "", 3) // only the cable was pulled
		})
	})
}
