package iface

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

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/boottime/boottimetest"
)

// fakeKernel is a kernel whose state, messages and failures a test controls.
type fakeKernel struct {
	mu            sync.Mutex
	state         *snapshot
	readErr       error
	subscribeErr  error
	events        chan event
	end           chan struct{} // closed: the kernel ends the subscription
	reads         int
	subscriptions int
}

func (k *fakeKernel) read() (*snapshot, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads++
	if k.readErr != nil {
		return nil, k.readErr
	}
	s := &snapshot{links: map[int]link{}, addresses: slices.Clone(k.state.addresses)}
	for i, l := range k.state.links {
		s.links[i] = l
	}
	return s, nil
}

func (k *fakeKernel) subscribe(stop <-chan struct{}, _ *slog.Logger) (<-chan event, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.subscribeErr != nil {
		return nil, k.subscribeErr
	}
	k.subscriptions++
	k.events, k.end = make(chan event, 16), make(chan struct{})
	out, in, end := make(chan event), k.events, k.end
	go func() {
		defer close(out)
		for {
			select {
			case e := <-in:
				select {
				case out <- e:
				case <-stop:
					return
				}
			case <-end:
				return
			case <-stop:
				return
			}
		}
	}()
	return out, nil
}

// set changes a link, and sends a message unless it should be lost.
func (k *fakeKernel) set(index int, up, tell bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.state.links[index]
	l.up = up
	k.state.links[index] = l
	if tell {
		k.events <- event{index: index, name: l.name}
	}
}

type watchTest struct {
	*fakeKernel
	reports []string
	logs    *logs
}

// logs is a log output that tests can read.
type logs struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// watch runs a watcher of eth0 (network 0) and 10.1.0.0/16 (network 1) in a bubble.
func watch(t *testing.T, k *fakeKernel, scenario func(*watchTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k.state = host()
		w := &watchTest{fakeKernel: k, logs: &logs{}}
		r := &watcher{
			WatchConfig: WatchConfig{
				Networks: []Local{
					find(t, k.state, Query{Network: "mgmt", Interface: "eth0"}),
					find(t, k.state, Query{Network: "data", CIDR: netip.MustParsePrefix("10.1.0.0/16")}),
				},
				Clock:  boottimetest.Clock(0),
				Logger: slog.New(slog.NewTextHandler(w.logs, nil)),
				Changed: func(c Change) {
					w.mu.Lock()
					defer w.mu.Unlock()
					text := fmt.Sprintf("%d %v %v", c.Network, c.Up, time.Duration(c.At))
					if c.Up {
						text += fmt.Sprintf(" %s %d", c.Local.Interface, c.Local.Index)
					}
					if c.Gone != nil {
						text += ": " + c.Gone.Error()
					}
					w.reports = append(w.reports, text)
				},
			},
			read: k.read, subscribe: k.subscribe,
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.run(ctx) }()
		synctest.Wait()
		scenario(w)
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returned %v", err)
		}
	})
}

func find(t *testing.T, s *snapshot, q Query) Local {
	t.Helper()
	l, err := s.find(q)
	if err != nil {
		t.Fatal(err)
	}
	l.Network, l.query = q.Network, q
	return l
}

func (w *watchTest) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.reports, want) {
		t.Errorf("reports %q, want %q", w.reports, want)
	}
}

func TestWatchReportsLossAndReturnAtOnce(t *testing.T) {
	watch(t, &fakeKernel{}, func(w *watchTest) {
		w.expect(t)
		time.Sleep(time.Second)
		w.set(2, false, true)
		w.expect(t, "0 false 1s")
		w.set(5, false, true)
		w.expect(t, "0 false 1s", "1 false 1s")
		time.Sleep(time.Second)
		w.set(2, true, true)
		w.expect(t, "0 false 1s", "1 false 1s", "0 true 2s eth0 2")
	})
}

func TestWatchFollowsAddresses(t *testing.T) {
	watch(t, &fakeKernel{}, func(w *watchTest) {
		others := host().addresses[:12:12] // all but 10.1.0.1
		w.replace(others, ip("10.1.0.1"))
		w.expect(t, "1 false 0s: its address 10.1.0.1 is gone")
		w.replace(append(others, address{ip: ip("10.1.0.1"), link: 3}), ip("10.1.0.1"))
		w.expect(t, "1 false 0s: its address 10.1.0.1 is gone", "1 true 0s eth1 3")
		w.set(3, false, true) // the address is on eth1 now
		w.expect(t, "1 false 0s: its address 10.1.0.1 is gone", "1 true 0s eth1 3", "1 false 0s")
	})
}

// replace sets the addresses and sends a message about one of them.
func (w *watchTest) replace(as []address, told netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state.addresses = as
	w.events <- event{index: 99, ip: told}
}

// A new device with an old name is reported, even if it was missing for too short a time to be noticed.
func TestWatchReportsAnotherDevice(t *testing.T) {
	watch(t, &fakeKernel{}, func(w *watchTest) {
		w.mu.Lock()
		w.state.links[9] = w.state.links[2]
		delete(w.state.links, 2)
		for i := range w.state.addresses {
			if w.state.addresses[i].link == 2 {
				w.state.addresses[i].link = 9
			}
		}
		w.events <- event{index: 9, name: "eth0"}
		w.mu.Unlock()
		w.expect(t, "0 true 0s eth0 9")
		w.set(9, false, true)
		w.expect(t, "0 true 0s eth0 9", "0 false 0s")
		w.set(9, true, true)
		w.expect(t, "0 true 0s eth0 9", "0 false 0s", "0 true 0s eth0 9")
	})
}

// The network is down, and the lasting reason is reported once.
func TestWatchTellsAnotherAddress(t *testing.T) {
	watch(t, &fakeKernel{}, func(w *watchTest) {
		old := host().addresses
		changed := func(from, to string) []address {
			as := slices.Clone(old)
			i := slices.IndexFunc(as, func(a address) bool { return a.ip == ip(from) })
			as[i].ip = ip(to)
			link := as[i].link
			return slices.DeleteFunc(as, func(a address) bool { return a.link == link && a.ip != ip(to) })
		}
		const advice = ": give the interface its old address, or put the new one on the members' list"
		want := []string{"0 false 0s: its address 10.0.0.1 is gone"}
		w.replace(changed("10.0.0.1", "fd00::1"), ip("10.0.0.1"))
		w.expect(t, want...)
		w.mu.Lock()
		w.state.addresses = changed("10.0.0.1", "10.0.0.7")
		w.events <- event{index: 2, ip: ip("10.0.0.7")} // an address of no network, but on eth0
		w.mu.Unlock()
		want = append(want, "0 false 0s: its address has changed from 10.0.0.1 to 10.0.0.7 (eth0)"+advice)
		w.expect(t, want...)
		time.Sleep(10 * pollInterval)
		w.replace(old, ip("10.0.0.1"))
		want = append(want, "0 true 1m40s eth0 2")
		w.expect(t, want...)
		w.replace(changed("10.1.0.1", "10.1.0.2"), ip("10.1.0.1"))
		w.expect(t, append(want, "1 false 1m40s: its address has changed from 10.1.0.1 to 10.1.0.2 (eth3)"+advice)...)
	})
}

// An interface that is renamed or gone is distinguished from one without carrier.
func TestWatchTellsThatAnInterfaceIsGone(t *testing.T) {
	watch(t, &fakeKernel{}, func(w *watchTest) {
		w.mu.Lock()
		l := w.state.links[2]
		l.name, l.up = "renamed", false
		w.state.links[2] = l
		w.events <- event{index: 2, name: "renamed"}
		w.mu.Unlock()
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.reports) != 1 || !strings.HasPrefix(w.reports[0], `0 false 0s: interface "eth0" does not exist any more`) {
			t.Errorf("reported %q", w.reports)
		}
	})
}

func TestWatchIgnoresOtherInterfaces(t *testing.T) {
	watch(t, &fakeKernel{}, func(w *watchTest) {
		reads := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.reads
		}
		before := reads()
		for range 10 {
			w.set(4, false, true)
			w.set(4, true, true)
			synctest.Wait()
		}
		if n := reads() - before; n != 0 {
			t.Errorf("%d snapshots for interfaces that do not matter", n)
		}
		w.expect(t)
	})
}

func TestWatchSurvivesLostMessages(t *testing.T) {
	watch(t, &fakeKernel{}, func(w *watchTest) {
		time.Sleep(time.Second)
		w.set(2, false, false)
		w.expect(t)
		time.Sleep(pollInterval)
		w.expect(t, "0 false 10s")
	})
}

func TestWatchLooksAfterResubscribing(t *testing.T) {
	watch(t, &fakeKernel{}, func(w *watchTest) {
		close(w.end)
		synctest.Wait()
		w.set(2, false, false) // while there is no subscription
		time.Sleep(retryInterval)
		w.expect(t, fmt.Sprintf("0 false %v", retryInterval))
		w.set(2, true, true)
		w.expect(t, fmt.Sprintf("0 false %v", retryInterval), fmt.Sprintf("0 true %v eth0 2", retryInterval))
	})
}

func TestWatchPollsWithoutNetlink(t *testing.T) {
	watch(t, &fakeKernel{subscribeErr: errors.New("no sockets left")}, func(w *watchTest) {
		time.Sleep(retryInterval / 2)
		w.set(2, false, false)
		time.Sleep(retryInterval)
		w.expect(t, fmt.Sprintf("0 false %v", retryInterval))
	})
}

func TestWatchKeepsStateItCannotRead(t *testing.T) {
	watch(t, &fakeKernel{}, func(w *watchTest) {
		w.mu.Lock()
		w.readErr = errors.New("no memory")
		w.mu.Unlock()
		w.set(2, false, true)
		w.expect(t)
		w.mu.Lock()
		w.readErr = nil
		w.mu.Unlock()
		time.Sleep(retryInterval)
		w.expect(t, fmt.Sprintf("0 false %v", retryInterval))
	})
}

func TestWatchReportsWhatIsDownAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &fakeKernel{state: host()}
		k.set(2, false, false)
		var down []int
		w := &watcher{WatchConfig: WatchConfig{
			Networks: []Local{{Address: ip("10.0.0.1"), Index: 2}, {Address: ip("10.1.0.1"), Index: 5}},
			Clock:    func() boottime.Instant { return 1 }, Logger: slog.New(slog.DiscardHandler),
			Changed: func(c Change) {
				if !c.Up {
					down = append(down, c.Network)
				}
			},
		}, read: k.read, subscribe: k.subscribe}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.run(ctx)
		if !slices.Equal(down, []int{0}) {
			t.Errorf("down at the start: %v", down)
		}
	})
}
