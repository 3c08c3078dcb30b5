package kdump

import (
	"encoding/binary"
	"fmt"
	"time"
)

const (
	magic   = 0x1B302A40
	version = 1
	size    = 8
	// Apart is how much later a message has to come than another to count as a second one.
	Apart = 5 * time.Second
	// Quiet is how long after the last message a dump is over. Messages come every 10 s, and some are lost.
	Quiet = 30 * time.Second
)

// Parse reads a message. The sender writes it in its own byte order.
func Parse(b []byte) error {
	if len(b) != size {
		return fmt.Errorf("message of %d bytes: fence_kdump sends %d", len(b), size)
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if order.Uint32(b) != magic {
			continue
		}
		if v := order.Uint32(b[4:]); v != version {
			return fmt.Errorf("fence_kdump's message of version %d: only version %d is known", v, version)
		}
		return nil
	}
	return fmt.Errorf("no message of fence_kdump: it begins with % x", b[:4])
}

// Shows is what the API server showed of a Node.
type Shows struct {
	Boot, Heartbeat string
	Ready           bool
}

// Verdict is what is known of a node's crash kernel.
type Verdict struct {
	Boot string    // that has ended; empty: none is proven
	Last time.Time // when it was heard last; zero: nothing was heard lately
}

// heard is what one node's crash kernel has said.
type heard struct {
	first, last time.Time
	shown       Shows
	read        time.Time // when that was read; zero: not yet
}

// Book keeps what was heard, by node.
type Book struct{ nodes map[string]*heard }

// Hear notes a message of a node.
func (b *Book) Hear(node string, now time.Time) {
	if b.nodes == nil {
		b.nodes = map[string]*heard{}
	}
	h := b.nodes[node]
	if h == nil || now.Sub(h.last) > Quiet {
		h = &heard{first: now}
		b.nodes[node] = h
	}
	h.last = now
}

// Judge says what the messages of a node prove, given what its Node shows now.
func (b *Book) Judge(node string, shows Shows, now time.Time) Verdict {
	h := b.nodes[node]
	switch {
	case h == nil:
		return Verdict{}
	case shows.Ready || now.Sub(h.last) > Quiet:
		delete(b.nodes, node)
		return Verdict{}
	case h.read.IsZero() || h.shown != shows:
		h.shown, h.read = shows, now
		return Verdict{Last: h.last}
	}
	v := Verdict{Last: h.last}
	if h.last.After(h.read) && h.last.Sub(h.first) >= Apart {
		v.Boot = h.shown.Boot
	}
	return v
}
