// Package k8s is the root of everything that talks to Kubernetes. It only holds the rights that each program needs
// ([Access]), which only tests read; its sub-packages are
//
//   - client: the REST clients for all of them, and the count of their requests;
//   - apicheck: whether this node reaches the API server, asked on a timer (agent);
//   - leasequorum: the rules by which a Lease grants one half of an equal split its life; pure
//     (agent, which hands them to watchdog as a tie.Breaker);
//   - leaseregister: that Lease (agent);
//   - ownnode: the annotations, the taint and the deletion of this node's Node that disarm the
//     watchdog (agent);
//   - nodelist: the list of members from the Nodes of the group (agent);
//   - marks: labels, annotations and Events of this node's Node (agent);
//   - deaths: the form in which an agent says there which nodes are dead (agent, controllers);
//   - sightings: the form in which it says there what speaks against fencing by devices (agent, controllers);
//   - belief, recovery, storm, ownership: the rules by which a controller acts on deaths; pure;
//   - reconcile: the controller itself, by controller-runtime (cmd/fencing-controller, and nobody else);
//   - nodefence, fenceconfig, remediation, kdump: the rules of fencing by devices: what comes next, by which devices, for whose
//     wish, and what a crash kernel proves; pure; fencing carries them out (cmd/fencing-controller);
//   - memberbook: how lists of members are numbered and believed; pure
//     (agent, controllers);
//   - storagefence: which pods leave a node that its storage has given up; pure; storagewatch carries it out
//     (cmd/fencing-controller storage);
//   - distributedapp: an example of an operator without a leader (cmd/distributedapp-operator);
//   - program: how the programs with controllers start and stop (cmd/fencing-controller, cmd/distributedapp-operator);
//   - k8stest: an API server for tests.
//
// # Arrows
//
// client-go and the other k8s.io modules are imported below this directory and nowhere
// else. The pure packages (netgossip, diskquorum, watchdog) know nothing of Kubernetes:
// what an agent-side package here learns reaches them as an event, through a func in its
// Config that the agent provides. leasequorum is as pure as they are. Packages below k8s import client, ownnode for its
// view of a Node, boottime and, for the types of what they report, netgossip (leaseregister also leasequorum); they
// import no other adapter, and nothing but the programs in cmd imports one.
//
// Nothing here is on the way of a feed. The API server may hang or be away for good: that
// ages what was learnt, which is the core's to judge, and blocks only the goroutine that
// asked.
package k8s
