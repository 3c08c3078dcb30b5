//go:build !amd64

package machine

// TSCKilohertz returns 0, for unknown: QEMU passes another counter than this processor's to its guests.
func TSCKilohertz() uint64 { return 0 }
