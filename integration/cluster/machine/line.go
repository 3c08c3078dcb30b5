package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Line is the harness's end of the connection to a guest. Its methods may be called from any goroutine. It runs one
// goroutine, which ends with the connection.
type Line struct {
	node  string
	conn  io.ReadWriteCloser
	done  <-chan struct{}
	ready chan Answer

	mu      sync.Mutex // guards the fields below, and writes
	last    int
	waiting map[int]chan Answer
}

// NewLine starts to read the messages of the node's guest. done is closed when the node has ended.
func NewLine(node string, conn io.ReadWriteCloser, done <-chan struct{}) *Line {
	l := &Line{node: node, conn: conn, done: done, ready: make(chan Answer, 1)}
	l.waiting = map[int]chan Answer{0: l.ready}
	go l.read()
	return l
}

func (l *Line) read() {
	in := json.NewDecoder(l.conn)
	for {
		var a Answer
		if in.Decode(&a) != nil {
			return // it has ended, and done is closed
		}
		l.mu.Lock()
		c := l.waiting[a.ID]
		delete(l.waiting, a.ID)
		l.mu.Unlock()
		if c != nil {
			c <- a
		}
	}
}

// Ready returns when the guest reports that its containerd answers and that it has started its kubelet.
func (l *Line) Ready(ctx context.Context) error {
	select {
	case <-l.ready:
		return nil
	case <-l.done:
		return errors.New("the machine ended")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Do sends a request to the guest and returns its answer.
func (l *Line) Do(ctx context.Context, q Request) (Answer, error) {
	c := make(chan Answer, 1)
	l.mu.Lock()
	l.last++
	q.ID = l.last
	l.waiting[q.ID] = c
	err := json.NewEncoder(l.conn).Encode(q)
	l.mu.Unlock()
	if err != nil {
		return Answer{}, fmt.Errorf("node %s: %w", l.node, err)
	}
	select {
	case a := <-c:
		if a.Error != "" {
			return a, fmt.Errorf("node %s: %s", l.node, a.Error)
		}
		return a, nil
	case <-l.done:
		return Answer{}, fmt.Errorf("node %s has no power", l.node)
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("node %s: %w", l.node, context.Cause(ctx))
	}
}
