//go:build !amd64

package machine

// TSCKilohertz is not known: what QEMU passes to its guests is not this processor's counter.
func TSCKilohertz() uint64 { return 0 }
