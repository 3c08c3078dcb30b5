// Package distributedapp is a worked example: an operator without a leader, whose replicas are put in order by
// k8s/ownership. It keeps the number of pods that a DistributedApp asks for. Neither the agent nor fencing-controller
// needs it. cmd/distributedapp-operator connects it to its gossip (the package below).
//
// A [Replica] has the watches of an informer, a work queue and some workers. A worker that looks at an app reads the
// app and the pods of its namespace from the API server, not from a cache. Then it makes the one write that comes next
// (plan).
//
// # Which replica works
//
// When a watch shows an app, or another replica reports it, each replica queues the app. The replica that is first by
// the hash looks at once, the next after a pause, and so on. A replica that looks after the work is done finds nothing
// to do. So each app is looked at while one replica is alive, whatever replicas the others count; a lost message only
// costs a pause. Two replicas at one app are expected.
//
// # What keeps that harmless
//
//   - D1. Each write has a precondition: the resourceVersion that was read, for a deletion the UID as well, and for a new
//     pod its full name, which is the app's name and an ordinal. Of two writers the second is refused.
//   - D2. The finalizer is added before the first pod, and removed when no pod of the app is left.
//   - D3. A pod belongs to the app if the app's UID owns it. A label proves nothing.
//   - D4. An app that was reconciled by one configuration is not reconciled by an older one: the configuration's version
//     is in the status. A configuration is used as a whole or not at all.
//   - D5. A message makes a replica look, and nothing else: it names an app, or a version of the configuration. The
//     replica reads both from the API server. So a message that is lost, late, repeated or forged costs one look.
//   - D6. A replica that writes a status sends no message about it: messages would never end.
//
// Receive and the handlers of the informers may be called from any goroutine; they do not block.
package distributedapp
