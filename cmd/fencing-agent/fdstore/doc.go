// Package fdstore leaves a descriptor with systemd, which keeps it when this process is killed and passes it to the
// next one of the same unit (FileDescriptorStoreMax= in systemd.service, sd_notify(3), sd_listen_fds(3)).
//
// # State and invariants
//
// A [Store] knows where systemd listens and what systemd passed to this process. It does not know what is in the store:
// systemd never answers, keeps nothing if the unit has no store, and drops everything when the unit ends. A caller that
// must know asks the kernel.
//
// # Concurrency and blocking
//
// A Store is immutable. Its methods may be called from any goroutine; they send one datagram and never wait. If systemd
// does not read its socket, they fail.
package fdstore
