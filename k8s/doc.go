// Package k8s is the root of everything that talks to Kubernetes. It only holds the rights that each program needs
// ([Access]), which only tests read. Its sub-packages are
//
//   - client: the REST clients for all of them, and the count of their requests;
//   - apicheck: asks on a timer whether this node reaches the API server (agent);
//   - leasequorum: the rules by which a Lease allows one half of an equal split to live; pure
//     (agent, which passes them to watchdog as a tie.Breaker);
//   - leaseregister: that Lease (agent);
//   - ownnode: the annotations, the taint and the deletion of this node's Node that disarm the
//     watchdog (agent);
//   - nodelist: the list of members from the Nodes of the group (agent);
//   - marks: labels, annotations and Events of this node's Node (agent);
//   - deaths: the annotation by which an agent reports which nodes are dead (agent, controllers);
//   - sightings: the annotation by which it reports reasons against fencing by devices (agent, controllers);
//   - belief, recovery, storm, ownership: the rules by which a controller acts on deaths; pure;
//   - reconcile: the controller itself, by controller-runtime (only cmd/fencing-controller);
//   - nodefence, fenceconfig, remediation, kdump: the rules of fencing by devices: what comes next, by which devices, at
//     whose request, and what a crash kernel proves; pure; fencing carries them out (cmd/fencing-controller);
//   - memberbook: how lists of members are numbered and believed; pure
//     (agent, controllers);
//   - storagefence: which pods are moved from a node that its storage has given up; pure; storagewatch carries it out
//     (cmd/fencing-controller storage);
//   - distributedapp: an example of an operator without a leader (cmd/distributedapp-operator);
//   - program: how the programs with controllers start and stop (cmd/fencing-controller, cmd/distributedapp-operator);
//   - k8stest: an API server for tests.
//
// # Arrows
//
// client-go and the other k8s.io modules are only imported below this directory. The pure packages (netgossip,
// diskquorum, watchdog) do not import Kubernetes. An agent-side package passes what it learns to them as an event,
// through a function in its Config that the agent provides. leasequorum is pure as well. Packages below k8s import
// client, ownnode for its view of a Node, boottime and, for the types of their reports, netgossip (leaseregister also
// leasequorum). They import no other adapter, and only the programs in cmd import an adapter.
//
// Feeding the watchdog never waits for these packages. The API server may hang or be away for good. Then the facts grow
// old, which the core takes into account, and only the goroutine that asked is blocked.
package k8s
