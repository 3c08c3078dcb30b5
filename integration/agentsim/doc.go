// Package agentsim runs whole agents on virtual time: agent.Run with the parts of the program, real memberlist, real
// gRPC servers with a subscriber each, the real feeder and the real I/O engine. Below them are simulated networks, a
// simulated LUN and a simulated watchdog that really stops its node. integration/sim is the fast simulation that only
// runs the decision cores.
//
// # What is simulated
//
// A machine has one address on each network, one watchdog, one access to the LUN and a clock that counts from its boot.
// When its watchdog fires, the machine is gone: its process is abandoned (agent.ErrAbandon), its sockets vanish, its
// subscriber is cut off, and its I/O in flight lands or not. After a while it boots, with another nonce.
//
// A process that is stopped (SIGSTOP, a starved CPU, a frozen cgroup) neither steps nor feeds nor sends. Its packets
// wait in the socket, and its I/O continues without it. Its other goroutines run, but nothing hears them. A stop never
// falls between the feeder's look at the clock and the write that follows: those few instructions are the only gap that
// no agent can close.
//
// # Schedules
//
// A [Schedule] is a configuration and a list of events with their times, created from a seed by [Random] or written by
// hand. Running it again repeats the same events at the same times, but not the same interleaving: memberlist and the
// runtime use random sources that no seed controls. [Shrink] therefore accepts a schedule that fails in any of several
// attempts.
//
// A third of the groups of [Random] have watchdogs with two timeouts. A third of the schedules change the list of
// members, in the configuration files of all machines or of some. Machines that are added later run no agent until then.
//
// In a third of the schedules operators order nodes to end, by the agents of other nodes (fencectl fence), sometimes
// two at once.
//
// A third of the groups are attacked: an attacker on every wire records packets and streams of all nodes and sends them
// again, at any time, to any node, and through every cut once they are older than D_max. Half of these groups use a
// gossip key. There the attacker sometimes changes the version byte, which crashes an agent that accepts it.
//
// # Properties
//
// The checker knows what the networks let through, and nothing about the agents' state. If lists of members change, half
// of the group is half of any list so far. A node that is on all lists and in contact with a majority of each must not
// be reset or miss its feed, whichever lists it has heard of:
//
//   - lonely: no node feeds that for D_max could hear from less than half of the group, or from no more than half if
//     no tie-breaker is configured, unless it reports that it holds by the LUN, without quorum;
//   - split: no two nodes both feed if no node could be heard by both of them for D_max + A, or G, and two feeds; if one
//     of them held at its last feed, for D_lun + D_max + G and two seconds. Any number may hold while none reports
//     quorum;
//   - horizon: when one of two such nodes has been fed for the published T_dead, the watchdog of the other has fired;
//   - stale: no process feeds whose loop has hung for longer than any permission lasts;
//   - bootgate: no process feeds that was never in contact with half of the group;
//   - calm: no node is reset that could hear from the same majority all the time and whose process was not touched,
//     whatever else fails;
//   - survival: such a node feeds;
//   - tie: when a healthy group falls into two halves, exactly one of them lives, if the LUN can be read and nothing
//     else happens before T_dead;
//   - fenced: an agent with quorum reports FENCED to its subscribers only about an incarnation whose watchdog has fired;
//   - left: no agent reports LEFT about a node that could be heard all the time, unless JOIN follows within a second
//     (memberlist may spread the view of a node that has just been cut off itself);
//   - order: a node ends because of an order only under three conditions. A person has ordered its present boot to end.
//     No other node with which it has long been in contact ends because of an order. Most of the others have been fed
//     recently;
//   - gone: an agent ends only when it is told to, or when its slot has another owner.
//
// # Concurrency
//
// [Run] must be called in a testing/synctest bubble of its own and leaves nothing behind in it. One mutex guards the
// simulated world; no agent is called with it held.
package agentsim
