// Package iface finds the local address of a SystemNetwork and watches whether the
// network's own side works: interface there, administratively up, with carrier, and the
// address on it.
//
// [Find] resolves an interface name, a CIDR or a literal address to a [Local]. [Watch] follows Locals and reports each
// loss and return, and by which interface a network works: an interface that was removed and made again has another
// index, which sockets bound to it must follow. Loss of a cable is known in milliseconds by this, while SWIM would need
// seconds.
//
// # State and invariants
//
// Find and Watch work on a snapshot of the kernel's links and addresses. Watch takes a new one whenever netlink tells
// of a link or address that concerns it, after each new subscription and every ten seconds, and compares: what happened
// in between does not matter, so a lost message can only delay a report. A snapshot that cannot be taken changes
// nothing.
//
// An address that is still tentative (duplicate address detection) is not there yet. The loopback addresses 127.0.0.0/8
// are all local on Linux, whether listed or not. A network found by interface needs its address on that interface;
// other networks may find their address on any interface, and stay with that interface as long as it works.
//
// A network whose own side is not there yet has no Local, and nothing to watch: to start such a network, call Find
// until it is there.
//
// A network whose address was replaced by another one is down. Watch logs what happened,
// once for each new address, and does not follow: the peers' lists have the old one.
//
// # Concurrency and blocking
//
// Find and snapshots ask the kernel and return within milliseconds. Watch blocks until
// its context ends and calls its callback from the calling goroutine, one call at a time;
// the callback must not block. The netlink sockets belong to the network namespace of
// the thread that called. Both functions are safe for concurrent use.
//
// # Errors
//
// Find's errors list what addresses or interfaces there are, so that the user can pick.
// Watch returns only when its context ends; trouble with netlink is logged and retried.
package iface
