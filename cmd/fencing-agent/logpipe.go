package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// logPipe lets the agent write its log without ever waiting for the log's reader. The deciding loop logs: if a hanging
// journal could block the loop, the permission to feed would expire and the node would be reset for nothing. If the
// reader is too slow, lines are dropped and counted.
type logPipe struct {
	out     io.Writer
	lines   chan []byte
	stop    chan struct{}
	done    chan struct{}
	dropped atomic.Uint64
}

const (
	logLines = 1024        // that may wait for the reader
	logFlush = time.Second // how long the process waits for the reader at its end
)

// newLogPipe starts the goroutine that writes to out; close ends it.
func newLogPipe(out io.Writer) *logPipe {
	p := &logPipe{out: out, lines: make(chan []byte, logLines), stop: make(chan struct{}), done: make(chan struct{})}
	go p.run()
	return p
}

// Write takes one line, as slog's handlers hand it over, and never blocks or fails.
func (p *logPipe) Write(line []byte) (int, error) {
	select {
	case p.lines <- append([]byte(nil), line...):
	default:
		p.dropped.Add(1)
	}
	return len(line), nil
}

func (p *logPipe) run() {
	defer close(p.done)
	for {
		select {
		case line := <-p.lines:
			p.put(line)
			continue
		default:
		}
		select {
		case line := <-p.lines:
			p.put(line)
		case <-p.stop:
			if len(p.lines) == 0 {
				return
			}
		}
	}
}

// put writes one line. An error cannot be reported.
func (p *logPipe) put(line []byte) {
	if n := p.dropped.Swap(0); n > 0 {
		fmt.Fprintf(p.out, "fencing-agent: %d log lines dropped, the log was not read in time\n", n)
	}
	_, _ = p.out.Write(line)
}

// close writes the waiting lines, but does not wait for a reader that does not read. Lines written afterwards are lost.
func (p *logPipe) close() {
	close(p.stop)
	t := time.NewTimer(logFlush)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
	}
}
