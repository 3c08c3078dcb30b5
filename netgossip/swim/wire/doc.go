// Package wire is the encoding of the evidence protocol: how a probe, a reply and the
// statement in them look as bytes (evidence.proto, generated evidence.pb.go).
//
// A packet is the CRC-32C of the rest, little endian, and a protobuf Packet. memberlist adds no checksum to user
// messages and that of UDP is weak; a flipped bit in a view would report a wrong set of members as alive.
//
// Packets are small, because a node continuously sends several per second. Between nodes with the same roster the
// sender is a number, a statement is sent only to a prober that does not have it yet, and its sets use the shortest
// form (set.go). A usual probe has 33 bytes, the reply 20.
//
// A list of members that the prober lacks travels in pieces of its text, one with each reply
// (list.go).
//
// [Decode] and [DecodeList] take bytes from the network: they are strict, their work and memory are bounded by
// [MaxSize] and [MaxList], and they never panic. Their results are canonical, so they encode to an equivalent packet.
// In a packet from a newer version, unknown fields are ignored.
//
// The functions are pure and safe for concurrent use; errors describe the fault of the packet and are for logs.
package wire
