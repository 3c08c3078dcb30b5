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
	// Apart is the time that has to pass after the first message before a second one counts.
	Apart = 5 * time.Second
	// Quiet is the time after the last message when a dump counts as over. Messages come every 10 s, and some are lost.
	Quiet = 30 * time.Second
)

// Parse reads a message. The sender writes it in its own byte order.
func Parse(b []byte) error {
	if len(b) != size {
		return fmt.Errorf("the message has %d bytes, but fence_kdump sends %d", len(b), size)
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if order.Uint32(b) != magic {
			continue
		}
		if v := order.Uint32(b[4:]); v != version {
			return fmt.Errorf("the message has version %d of fence_kdump, but only version %d is known", v, version)
		}
		return nil
	}
	return fmt.Errorf("this is not a message of fence_kdump: it begins with % x", b[:4])
}

// Shows is what the API server shows about a Node.
type Shows struct {
	Boot, Heartbeat string
	Ready           bool
}

// Verdict is what a node's crash kernel proves.
type Verdict struct {
	Boot string    // the boot that has ended; empty: none is proven
	Last time.Time // when the crash kernel was heard last; zero: not lately
}

// heard records the messages of one node's crash kernel.
type heard struct {
	first, last time.Time
	shown       Shows
	read        time.Time // when the boot was read; zero: not yet
}

// Book records messages, by node.
type Book struct{ nodes map[string]*heard }

// Hear records a message of a node.
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

// Judge returns what the messages of a node prove, given what its Node shows now.
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
