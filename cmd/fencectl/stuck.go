package main

import (
	"errors"
	"io"
	"slices"
	"time"
)

// errStuck says that nobody reads the output.
var errStuck = errors.New("its reader hangs")

// unstuck writes to a writer that may block for ever, such as a full pipe or a terminal after Ctrl-S. A write waits
// for at most a second; until the reader goes on, what follows is dropped at once.
type unstuck struct {
	to   io.Writer
	busy chan struct{} // of one place, taken while a write is under way
}

func newUnstuck(to io.Writer) *unstuck { return &unstuck{to: to, busy: make(chan struct{}, 1)} }

func (u *unstuck) Write(p []byte) (int, error) {
	select {
	case u.busy <- struct{}{}:
	default:
		return 0, errStuck
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	text := slices.Clone(p) // a writer must not keep p
	go func() {
		n, err := u.to.Write(text)
		<-u.busy
		done <- result{n, err}
	}()
	limit := time.NewTimer(time.Second)
	defer limit.Stop()
	select {
	case r := <-done:
		return r.n, r.err
	case <-limit.C:
		return 0, errStuck
	}
}
