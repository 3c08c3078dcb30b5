package iface

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
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

// set changes a link, and tells unless the message is to be lost.
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
}

// watch runs a watcher of eth0 (network 0, pinned) and 10.1.0.1 (network 1) in a bubble.
func watch(t *testing.T, k *fakeKernel, scenario func(*watchTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k.state = host()
		w := &watchTest{fakeKernel: k}
		began := time.Now()
		r := &watcher{
			WatchConfig: WatchConfig{
				Networks: []Local{
					{Network: "mgmt", Address: ip("10.0.0.1"), Interface: "eth0", Pinned: true},
					{Network: "data", Address: ip("10.1.0.1"), Interface: "eth3"},
				},
				Clock:  func() boottime.Instant { return boottime.Instant(time.Since(began)) },
				Logger: slog.New(slog.DiscardHandler),
				Changed: func(network int, up bool, at boottime.Instant) {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.reports = append(w.reports, fmt.Sprintf("%d %v %v", network, up, time.Duration(at)))
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
		w.expect(t, "0 false 1s", "1 false 1s", "0 true 2s")
	})
}

func TestWatchFollowsAddresses(t *testing.T) {
	watch(t, &fakeKernel{}, func(w *watchTest) {
		others := host().addresses[:12:12] // all but 10.1.0.1
		replace := func(as []address) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.state.addresses = as
			w.events <- event{index: 99, ip: ip("10.1.0.1")}
		}
		replace(others)
		w.expect(t, "1 false 0s")
		replace(append(others, address{ip: ip("10.1.0.1"), link: 3}))
		w.expect(t, "1 false 0s", "1 true 0s")
		w.set(3, false, true) // it lives on eth1 now
		w.expect(t, "1 false 0s", "1 true 0s", "1 false 0s")
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
		w.set(2, false, false) // while nobody listens
		time.Sleep(retryInterval)
		w.expect(t, fmt.Sprintf("0 false %v", retryInterval))
		w.set(2, true, true)
		w.expect(t, fmt.Sprintf("0 false %v", retryInterval), fmt.Sprintf("0 true %v", retryInterval))
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
			Networks: []Local{{Address: ip("10.0.0.1")}, {Address: ip("10.1.0.1")}},
			Clock:    func() boottime.Instant { return 1 }, Logger: slog.New(slog.DiscardHandler),
			Changed: func(network int, up bool, _ boottime.Instant) {
				if !up {
					down = append(down, network)
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
