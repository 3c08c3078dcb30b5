package wdt

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// napper is how the feeder waits for its next turn.
type napper interface {
	// nap returns after d, or sooner after a poke. It may return early for no reason.
	nap(d time.Duration)
	// poke ends a nap, or makes the next one short. Any goroutine may call it; it never blocks.
	poke()
	close()
}

// runtimeNap waits as goroutines do: a thread of the runtime notices that the time has come
// and finds the feeder's thread. It works in bubbles of testing/synctest.
type runtimeNap struct {
	wake  chan struct{} // capacity 1
	timer *time.Timer
}

func newRuntimeNap() *runtimeNap {
	return &runtimeNap{wake: make(chan struct{}, 1)}
}

func (n *runtimeNap) nap(d time.Duration) {
	if n.timer == nil {
		n.timer = time.NewTimer(d) // here, since a bubble's timer has to be made inside
	} else {
		n.timer.Reset(d)
	}
	select {
	case <-n.wake:
	case <-n.timer.C:
	}
}

func (n *runtimeNap) poke() {
	select {
	case n.wake <- struct{}{}:
	default: // a wake-up is under way and will see what was stored before
	}
}

func (n *runtimeNap) close() {
	if n.timer != nil {
		n.timer.Stop()
	}
}

// kernelNap waits in the kernel, on the feeder's own thread. If that thread has a real-time priority, the kernel runs
// it on time whatever other threads want. No ordinary thread of the runtime has to run before it, provided that the
// process leaves one of its processors (GOMAXPROCS) idle.
type kernelNap struct {
	poll [1]unix.PollFd
	time unix.Timespec
	buf  [8]byte

	mu     sync.Mutex // guards fd against a poke after its close; nap does not take it
	fd     int
	closed bool
}

func newKernelNap() (*kernelNap, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("eventfd of the watchdog feeder: %w", err)
	}
	return &kernelNap{fd: fd, poll: [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}}, nil
}

func (n *kernelNap) nap(d time.Duration) {
	n.time = unix.NsecToTimespec(int64(max(0, d)))
	if ready, err := unix.Ppoll(n.poll[:], &n.time, nil); err == nil && ready > 0 {
		_, _ = unix.Read(int(n.poll[0].Fd), n.buf[:]) // resets the count; if not, the next nap is short
	}
}

// one is what adds 1 to the count of an eventfd.
var one = binary.NativeEndian.AppendUint64(nil, 1)

func (n *kernelNap) poke() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		_, _ = unix.Write(n.fd, one) // EAGAIN: the count is huge, so a wake-up is under way
	}
}

func (n *kernelNap) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.closed = true
		_ = unix.Close(n.fd) // an eventfd has nothing to lose
	}
}
