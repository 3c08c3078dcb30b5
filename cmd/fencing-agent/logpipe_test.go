package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

// Guard: the deciding loop must not wait for the reader of the log.
func TestLogPipeNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe() // nobody reads
		p := newLogPipe(w)
		for i := range logLines + 11 {
			fmt.Fprintf(p, "line %d\n", i)
			if i == 0 {
				synctest.Wait() // the record was taken, and is stuck in the writer
			}
		}
		var got bytes.Buffer
		read := make(chan struct{})
		go func() { defer close(read); _, _ = io.Copy(&got, r) }()
		p.close()
		w.Close()
		<-read
		if n := strings.Count(got.String(), "\n"); n != logLines+2 || !strings.Contains(got.String(), "10 log lines dropped") {
			t.Errorf("%d lines, want %d and a word about 10 dropped", n, logLines+2)
		}
		if !strings.HasPrefix(got.String(), "line 0\n") {
			t.Errorf("begins with %.20q", got.String())
		}
	})
}

func TestLogPipeEndsWithoutAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		p := newLogPipe(w)
		fmt.Fprintln(p, "line")
		p.close() // returns after logFlush of virtual time
		r.Close()
		<-p.done
	})
}
