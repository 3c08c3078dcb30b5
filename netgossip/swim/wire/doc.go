// Package wire is the encoding of the evidence protocol: how a probe, a reply and the
// statement in them look as bytes (evidence.proto, generated evidence.pb.go).
//
// A packet is the CRC-32C of the rest, little endian, and a protobuf Packet. memberlist
// adds no checksum to user messages and the one of UDP is weak; a flipped bit in a view
// would be a wrong opinion about who is alive.
//
// Packets are small, because a node sends several a second all its life: between nodes of
// one roster the sender is a number, a statement travels only to a prober that does not
// hold it already, and its sets are written the shortest way (set.go). A usual probe has 33
// bytes and the reply 20.
//
// A list of members that the prober lacks travels in pieces of its text, one with each reply
// (list.go).
//
// [Decode] and [DecodeList] take bytes from the network: they are strict, their work and memory are bounded
// by [MaxSize] and [MaxList], and they never panic. What they return is canonical, so it encodes to an
// equivalent packet. A packet from a newer version with fields unknown here decodes to
// what is known here.
//
// The functions are pure and safe for concurrent use; errors say what was wrong with
// the packet and are for logs.
package wire
