// Package iface finds the local address of a SystemNetwork and watches whether the
// network's own side works: interface there, administratively up, with carrier, and the
// address on it.
//
// [Find] resolves an interface name, a CIDR or a literal address to a [Local]. [Watch] follows Locals and reports each
// loss and return, and by which interface a network works: an interface that was removed and created again has another
// index, which sockets bound to it must follow. Watch reports the loss of a cable within milliseconds, while SWIM would
// need seconds.
//
// # State and invariants
//
// Find and Watch work on a snapshot of the kernel's links and addresses. Watch takes a new one whenever netlink reports
// a link or address that concerns it, after each new subscription and every ten seconds, and compares it with the one
// before. It does not evaluate the messages themselves, so a lost message can only delay a report. A snapshot that
// cannot be taken changes nothing.
//
// A tentative address (duplicate address detection) does not count yet. The loopback addresses 127.0.0.0/8 are all
// local on Linux, whether listed or not. A network that was found by its interface needs its address on that interface.
// For other networks the address may be on any interface; they keep that interface as long as it works.
//
// A network whose own side does not exist yet has no Local, and cannot be watched: to start such a network, call Find
// until it succeeds.
//
// A network whose address was replaced by another one is down. Watch logs this once for each new address, and does not
// use the new address: the peers' lists have the old one.
//
// # Concurrency and blocking
//
// Find and snapshots query the kernel and return within milliseconds. Watch blocks until its context ends and calls its
// callback from the calling goroutine, one call at a time; the callback must not block. The netlink sockets belong to
// the network namespace of the calling thread. Both functions are safe for concurrent use.
//
// # Errors
//
// Find's errors list the existing addresses or interfaces, so that the user can choose. Watch returns only when its
// context ends; errors of netlink are logged, and the operation is tried again.
package iface
