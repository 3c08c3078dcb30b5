// Package history is what an agent keeps across a reset of its node: a bounded ring of records, and how a boot ended
// according to them. It is pure: cmd/fencing-agent/recorder writes the file from a goroutine of its
// own, fencectl and the status page read it. Functions may be called from any goroutine; none blocks.
//
// The file is a header and a fixed number of slots of 512 bytes, one record each, in no order: a reader sorts them by their
// numbers. The file never grows; a Shelf says which record makes room. Each slot carries its own checksum: a record that was
// being written when the node was reset, and the one whose slot it took, are all that is lost.
package history
