// Package history defines the records that an agent keeps across a reset of its node, in a bounded file, and derives
// from them how a boot ended. It is pure: cmd/fencing-agent/recorder writes the file from a separate goroutine,
// fencectl and the status page read it. Functions may be called from any goroutine; none blocks.
//
// The file is a header and a fixed number of slots of 512 bytes, one record each, in no order: a reader sorts the
// records by their numbers. The file never grows; a Shelf decides which record is replaced. Each slot has its own
// checksum: a reset of the node only loses the record that was being written, and the record that it replaced.
package history
