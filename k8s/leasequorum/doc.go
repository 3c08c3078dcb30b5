// Package leasequorum decides an equal split by one coordination.k8s.io Lease, so that at most
// one half is granted the right to live. It is the pure part: what may be written into the
// Lease, and who may feed by the Lease until when.
//
// # State and invariants
//
// The Lease is a register that is changed by compare-and-swap only. It names a [Grant]: the
// tokens (kernel boot and counter, as in netgossip.Token) of all members of one half. A node
// moves its own token on whenever its counted view changes and whenever its agent starts;
// a token that has moved on never returns.
//
//	K1  a write replaces exactly the version that its writer has read, or fails
//	K2  a node feeds under a grant only while that names the present tokens of exactly its
//	    view, and no longer than Term after the START of a write of this grant that is known
//	    to have landed: its own, or one that a member of its view tells of first hand
//	K3  a grant is replaced by one to other nodes only when each holder's token is proven to
//	    have moved on, or when the version that is replaced was seen an expiry before the
//	    write is sent, which is Term and the longest horizon of these holders and the writer
//	K4  among the same nodes a grant may follow at once, if it keeps each token or replaces
//	    one that is proven to have moved on
//	K5  a Lease that names nobody is treated like one whose holders are unknown: only K3's
//	    time frees it. So anybody who deletes the Lease delays a decision, and makes no second half
//	K6  a half asks for a grant only if all of it are known to break ties by this Lease: else both
//	    halves could win, each its own way. It is the caller's to judge (lease.md T1 to T4)
//	K7  the Lease says how long the horizon of each holder is, that is, how long the holder may run
//	    on when it feeds no more. A node states a horizon with each token, and takes another token
//	    before a longer horizon. A node that has stated none is taken to have the longest there is
//	K8  a member of the granted half that has moved its token on, and says that it counts a majority with
//	    this node in it, does not end the grant for this node, whose token stands: see K2 and K3
//
// Why at most one half feeds: let a write replace a grant. By K1 no write of that grant lands
// after it. Either all its holders' tokens have moved on, and K2 fails for them for ever; or
// the replaced version was written before it was seen, so that everything that K2 rests on
// began more than Term ago. In both cases nobody feeds under the former grant, or under one
// before it, when the write is sent; and in the second the watchdogs of those who did have
// fired, however differently nodes are configured. Nothing here rests on the age of a read, on the order or
// the time of replies, on the Lease's own times, or on clocks of other nodes. docs/adr has
// the whole argument.
//
// # Concurrency and blocking
//
// One goroutine owns an [Arbiter]. Nothing blocks: at most one [Op] is handed out at a time,
// and its performer reports its [Completion] however late, with the outcome Unknown
// when it gave up waiting. An operation that was given up may still take effect later.
package leasequorum
