// Package leasequorum decides an equal split by one coordination.k8s.io Lease, so that at most one half is granted the
// right to live. It is the pure part: what may be written into the Lease, and which node may feed by the Lease until
// when.
//
// # State and invariants
//
// The Lease is a register that is only changed by compare-and-swap. It names a [Grant]: the tokens (kernel boot and
// counter, as in netgossip.Token) of all members of one half. A node moves its own token on whenever its counted view
// changes and whenever its agent starts. A token that has moved on never returns.
//
//	K1  a write replaces exactly the version that its writer has read, or fails
//	K2  a node feeds under a grant only while that grant names the present tokens of exactly its
//	    view, and for at most Term after the START of a write of this grant that is known
//	    to have landed: its own write, or one that a member of its view reports as its own
//	K3  a grant is replaced by one to other nodes in two cases only. Either each holder's token has
//	    provably moved on; or the version that is replaced was seen an expiry before the write is
//	    sent. The expiry is Term and the longest horizon of these holders and the writer
//	K4  among the same nodes a grant may follow at once, if it keeps each token or replaces
//	    one that has provably moved on
//	K5  a Lease that names nobody is treated like one whose holders are unknown: only K3's time
//	    frees it. So deleting the Lease delays a decision, and does not create a second half
//	K6  a half asks for a grant only if all its members are known to break ties by this Lease: otherwise
//	    each half could win in its own way. The caller judges that (lease.md T1 to T4)
//	K7  the Lease states the horizon of each holder, which is how long the holder may run on after it
//	    stops feeding. A node states a horizon with each token, and draws another token before it
//	    states a longer horizon. A node that has stated none counts with the longest there is
//	K8  if a member of the granted half has moved its token on, and states, in the boot of the grant,
//	    that it counts a majority that includes this node, that does not end the grant for this node
//	    while its own token stays: see K2 and K3
//
// Why at most one half feeds: let a write replace a grant. By K1 no write of that grant lands after it. There are two
// cases. In the first, all holders' tokens have moved on, and K2 fails for them for ever. In the second, the replaced
// version was written before it was seen, so everything that K2 depends on began more than Term ago. In both cases
// nobody feeds under the replaced grant, or under one before it, when the write is sent. In the second case the
// watchdogs of the nodes that did feed have also fired, however differently the nodes are configured. The argument does
// not depend on the age of a read, the order or the time of replies, the Lease's own times, or the clocks of other
// nodes. docs/adr has the whole argument.
//
// # Concurrency and blocking
//
// One goroutine owns an [Arbiter]. Nothing blocks: at most one [Op] is handed out at a time. Its performer reports its
// [Completion], however late, with the outcome Unknown if it gave up waiting. An operation that was given up may still
// take effect later.
package leasequorum
