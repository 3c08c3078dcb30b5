package probing

import (
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Peer is the probing state of one peer. Other packages keep their own data about a peer, such as its address, by
// Index. A Schedule creates its Peers, and a Peer belongs to one Schedule.
type Peer struct {
	Index int // as in Config.Peers

	// Known and Digest hold the statement of the latest answer that had one, and its digest; nil: none.
	Known  *netgossip.Statement
	Digest uint64
	// Holds is the digest of our statement that the peer has, as its answer stated.
	Holds uint64

	due      boottime.Instant // of the next probe; Never: a sample or a sweep decides
	position int              // in the heap
	sentAt   boottime.Instant // latest probe
	sent     []Probe          // unanswered, oldest first
	proven   boottime.Instant // sentAt of the latest answered probe; zero: none
	asked    boottime.Instant // first probe since proven that is unanswered; zero: none

	contact bool             // the peer's latest answer stated that it sees us
	aside   boottime.Instant // when the peer missed a probe, if it has not answered since; zero: it has not missed one
	lost    bool             // silent for longer than evidence lasts, or together with many others
	dead    boottime.Instant // when memberlist declared it dead: answers from before are void

	// when the vouch began to wait for the peer, as a sample or because of a look; zero: it does not wait
	sampled boottime.Instant
	drawn   boottime.Instant // when the peer became a sample; zero: it is not a sample, but may be looked at
	overdue bool             // the sample's first probe was not answered in time
	owed    boottime.Instant // the value of asked for which the peer was reported late, if each peer is probed
	swept   int              // number of the sweep that probed it last
	nudged  bool             // the next probe must announce news
	// start of the latest probe that was the first to announce the news and is unanswered; zero: none
	telling boottime.Instant
	curious bool // the next probe must ask for the statement
	turn    int  // answers so far

	heard     boottime.Instant // when the latest packet of the evidence protocol came from the peer
	elsewhere boottime.Instant // start of the latest probe that the peer answered on another network
	told      boottime.Instant // start of the latest probe, on any network, whose answer carried the peer's statement
}

// Probe is a probe that has not been answered yet.
type Probe struct {
	ID   uint64
	At   boottime.Instant
	Held *netgossip.Statement // the statement that the probe named
}

// Miss reports a peer that has not answered since an instant. If Void is set, none of its earlier answers counts any
// more.
type Miss struct {
	Peer  int
	Since boottime.Instant
	Void  bool
}

// Late reports a peer whose answer to a probe is overdue.
type Late struct {
	Peer  int
	Since boottime.Instant
	Swept bool // the probe was part of a sweep over all peers
}

// Due returns when the next probe is planned; [boottime.Never]: a sample or a sweep decides.
func (p *Peer) Due() boottime.Instant { return p.due }

// SentAt returns when the latest probe was sent.
func (p *Peer) SentAt() boottime.Instant { return p.sentAt }

// Proven returns when the latest answered probe was sent; zero: none was answered.
func (p *Peer) Proven() boottime.Instant { return p.proven }

// Asked returns when the oldest probe since the peer's latest answer was sent that is still unanswered; zero: no answer
// is due.
func (p *Peer) Asked() boottime.Instant { return p.asked }

// Owes reports whether a probe of the peer is still unanswered.
func (p *Peer) Owes() bool { return len(p.sent) > 0 }

// Absent reports whether the peer has never answered, or counts as lost.
func (p *Peer) Absent() bool { return p.lost || p.proven == 0 }

// Hear records that a packet came from the peer at an instant. A sweep then does not treat the peer as gone, even if
// its answers were lost.
func (p *Peer) Hear(at boottime.Instant) { p.heard = at }

// Tell records that the peer's answer to the probe of an instant carried its statement.
func (p *Peer) Tell(at boottime.Instant) { p.told = max(p.told, at) }

// Die records that memberlist declared the peer dead at an instant: its earlier answers are void.
func (p *Peer) Die(at boottime.Instant) { p.dead = max(p.dead, at) }
