// Package gossip carries the messages of k8s/distributedapp between the replicas of its operator, by memberlist, and
// lists the replicas.
//
// The messages are hints (docs/adr/0053): a message may be lost, late, repeated or forged. So the package promises
// little. A message is sent once to each member that is known at that moment. Messages to a member that is too slow are
// dropped. Only the form of a received message is checked here ([Decode]). A replica that joins or returns relies on
// the state, which memberlist exchanges at each join and every 30 s.
//
// memberlist never looks again for a member that it has called dead. [Gossip.Run] does: it resolves the peers every few
// seconds, and joins those that are not members.
//
// memberlist calls State, Receive and Changed from its goroutines; they must not block. All methods may be called from
// any goroutine; only Run waits for the network.
package gossip
