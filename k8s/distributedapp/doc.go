// Package distributedapp is a worked example: an operator without a leader, whose replicas are put in order by
// k8s/ownership. It keeps as many pods for a DistributedApp as that asks for. Nothing of the agent or of
// fencing-controller needs it; cmd/distributedapp-operator wires it to its gossip (the package below).
//
// A [Replica] has the watches of an informer, a work queue and some workers. One look at an app reads the app and the pods
// of its namespace from the API server, not from a cache, and makes the one write that comes next (plan).
//
// # Who works
//
// When something is seen of an app, or reported by another replica, each replica queues the app: the first by the
// hash at once, the next after a pause, and so on. One that looks finds nothing to do if it was done. So each app is
// looked at while one replica lives, whatever the others believe, and messages that are lost cost a pause. Two
// replicas at one app are expected.
//
// # What keeps that harmless
//
//   - D1. Each write has a precondition: the resourceVersion that was read, for a deletion the UID as well, and for a pod that
//     is made its full name, which is the app's and an ordinal. Of two writers the second is refused.
//   - D2. The finalizer is there before the first pod, and goes when no pod of the app is left.
//   - D3. A pod is the app's if the app's UID owns it. A label says nothing.
//   - D4. What was reconciled by a configuration is not reconciled by an older one: its version is in the status. A
//     configuration is taken up as a whole or not at all.
//   - D5. A message makes a replica look, and nothing else: it names an app, or a version of the configuration. Both are read
//     from the API server. So a message that is lost, late, repeated or forged costs a look.
//   - D6. A status that is written is told to nobody: it would go on for ever.
//
// Receive and the handlers of the informers may be called from any goroutine; they do not block.
package distributedapp
