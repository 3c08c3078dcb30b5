// Package agentsim runs whole agents on virtual time: agent.Run with the wiring of the
// program, real memberlist, real gRPC servers with a subscriber each, the real feeder and
// the real I/O engine, and below them simulated networks, a simulated LUN and a simulated
// watchdog that really stops its node. integration/sim is the fast sibling that runs the
// decision cores alone.
//
// # What is simulated
//
// A machine has one address on each network, one watchdog, one access to the LUN and a
// clock that counts from its boot. When its watchdog fires it is gone: its process is
// abandoned (agent.ErrAbandon), its sockets vanish, its subscriber is cut off and its I/O in
// flight lands or not. After a while it boots, with another nonce.
//
// A process that is stopped (SIGSTOP, a starved CPU, a frozen cgroup) neither steps nor feeds
// nor sends, its packets wait in the socket and its I/O goes on without it. Its other
// goroutines run, unheard. A stop never falls between the feeder's look at the clock and
// the write that follows: those few instructions are the one gap that no agent can close.
//
// # Schedules
//
// A [Schedule] is a configuration and a list of events with their times, made from a seed by
// [Random] or written by hand. Running it again meets the same events at the same times,
// but not the same interleaving: memberlist and the runtime draw from sources that no seed
// reaches. [Shrink] therefore accepts what fails, however often it has to try.
//
// A third of the groups of [Random] have watchdogs with two timeouts. A third of the schedules change the list of
// members, in the configuration files of all machines or of some. Machines that are to be added run no agent before.
//
// In a third of the schedules operators order nodes to end, by the agents of other ones (fencectl fence), now and then two at once.
//
// A third of the groups is attacked: somebody on every wire keeps packets and streams of all nodes and sends them
// again, at any time, to any node, and through every cut once they are older than D_max. Half of these groups use a
// gossip key; there the version byte of what is sent again is changed now and then, which crashes an agent that lets it
// pass.
//
// # Properties
//
// The checker knows what the networks let through and nothing of what the agents think. Where lists of members change,
// half of the group is half of any list so far, and a node that is on all lists and in contact with a majority of each
// must not be reset or miss its feed, whatever lists it was told of itself:
//
//   - lonely: no feed by a node that for D_max could hear from less than half of the
//     group, or from no more than half where no tie-breaker is configured, unless it says that it holds
//     by the LUN, without quorum;
//   - split: no two nodes both feed that for D_max + A, or G, and two feeds had no node in
//     common which either could hear from; where one of them held at its last feed, for D_lun + D_max + G and two
//     seconds. Any number may hold while none says that it has quorum;
//   - horizon: when one of them has been fed for the published T_dead, the watchdog of the
//     other has fired;
//   - stale: no feed by a process whose loop has hung for longer than any permission lasts;
//   - bootgate: no feed by a process that never was in contact with half of the group;
//   - calm: no reset of a node that could hear from the same majority all the time and whose
//     process nobody touched, whatever else goes wrong;
//   - survival: such a node feeds;
//   - tie: of a healthy group that falls into two halves exactly one lives, if the LUN can be
//     read and nothing else happens before T_dead;
//   - fenced: no FENCED, to subscribers of an agent with quorum, about an incarnation whose
//     watchdog has not fired;
//   - left: no LEFT about a node that could be heard all the time, unless JOIN follows within a
//     second (memberlist may spread what a node believes that has just been cut off itself);
//   - order: a node ends by an order only if somebody has ordered that this boot of it ends, only while no other node
//     does so that it has long been in contact with, and only if most of the others have been fed lately;
//   - gone: an agent ends only when it is told to, or when its slot has another owner.
//
// # Concurrency
//
// [Run] must be called in a testing/synctest bubble of its own and leaves nothing behind
// in it. One mutex guards the simulated world; no agent is called with it held.
package agentsim
