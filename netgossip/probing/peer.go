package probing

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Peer is the state of probing one peer. Other packages keep what only they know about a peer, such as its address,
// by Index. A Schedule makes them, and each belongs to one.
type Peer struct {
	Index int // as in Config.Peers

	// Known and Digest are the statement of the latest answer that had one; nil: none.
	Known  *netgossip.Statement
	Digest uint64
	// Holds is the digest of our statement that the peer said it holds.
	Holds uint64

	due      boottime.Instant // of the next probe; Never: a sample or a sweep decides
	position int              // in the heap
	sentAt   boottime.Instant // latest probe
	sent     []Probe          // unanswered, oldest first
	proven   boottime.Instant // sentAt of the latest answered probe; zero: none
	asked    boottime.Instant // first probe since then that is unanswered; zero: none

	contact bool             // its latest answer said that it sees us
	aside   boottime.Instant // since when it has missed a probe, and not answered; zero: it has not
	lost    bool             // silent for longer than evidence lasts, or with many others
	dead    boottime.Instant // when memberlist declared it so: what was answered before is void

	sampled boottime.Instant // since when the vouch waits for it, as a sample or because of a look; zero: it does not
	drawn   boottime.Instant // since when it is a sample; zero: it is not a sample, but may be looked at
	overdue bool             // the sample's first probe was not answered in time
	owed    boottime.Instant // as asked, if that was reported late where each peer is probed
	swept   int              // number of the sweep that probed it last
	nudged  bool             // the next probe has to say that there is news
	telling boottime.Instant // of the latest one that said so for the first time, and is not answered; zero: none
	curious bool             // the next probe has to ask for the statement
	turn    int              // answers so far

	heard     boottime.Instant // when anything of the evidence protocol came from it
	elsewhere boottime.Instant // start of the latest probe that it answered on another network
	told      boottime.Instant // the same on any network, with an answer that carried its statement
}

// Probe is a probe that is not answered yet.
type Probe struct {
	ID   uint64
	At   boottime.Instant
	Held *netgossip.Statement // that the probe named
}

// Miss is a peer, to be reported, that has not answered since an instant. With Void, none of its earlier answers counts
// any more.
type Miss struct {
	Peer  int
	Since boottime.Instant
	Void  bool
}

// Late is a peer that owes the answer to a probe of an instant for longer than that should take.
type Late struct {
	Peer  int
	Since boottime.Instant
	Swept bool // it is one of all the peers that were probed in a sweep
}

// Due returns when the next probe is planned; [boottime.Never]: a sample or a sweep decides.
func (p *Peer) Due() boottime.Instant { return p.due }

// SentAt returns when the latest probe was sent.
func (p *Peer) SentAt() boottime.Instant { return p.sentAt }

// Proven returns when the latest answered probe was sent; zero: none was answered.
func (p *Peer) Proven() boottime.Instant { return p.proven }

// Asked returns when the oldest unanswered probe since the peer's latest answer was sent; zero: the peer owes no
// answer.
func (p *Peer) Asked() boottime.Instant { return p.asked }

// Owes reports whether a probe is not answered yet.
func (p *Peer) Owes() bool { return len(p.sent) > 0 }

// Absent reports whether the peer has never answered, or counts as lost.
func (p *Peer) Absent() bool { return p.lost || p.proven == 0 }

// Hear notes that something came from the peer at an instant. A sweep then does not take the peer to be gone, whatever
// was lost.
func (p *Peer) Hear(at boottime.Instant) { p.heard = at }

// Tell notes that the peer's answer to a probe of an instant had its statement.
func (p *Peer) Tell(at boottime.Instant) { p.told = max(p.told, at) }

// Die notes that memberlist declared the peer dead at an instant: what it answered before is void.
func (p *Peer) Die(at boottime.Instant) { p.dead = max(p.dead, at) }
