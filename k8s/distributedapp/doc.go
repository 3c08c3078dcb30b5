// Package distributedapp is a worked example: an operator without a leader, on the same ownership as the controllers of
// this project (k8s/ownership). It keeps as many pods for a DistributedApp as that asks for. Nothing of the agent or of
// fencing-controller needs it. Its adapters are below (operator, gossip); cmd/distributedapp-operator wires them.
//
// A [Core] is one replica. It remembers which apps there are, who the other replicas are and which configuration is the
// latest, and says which app is to be looked at when ([Core.Due]). [Plan] looks at one app, and returns the one write that
// comes next. Both are pure: time, objects and messages are arguments.
//
// # Who works
//
// An event about an app (its spec, its deletion, a pod of it, the configuration, the list of replicas) makes it due at each
// replica: at the first by the hash at once, at the next after a pause, and so on. One that looks finds nothing to do if it
// was done. So each app is looked at while one replica lives, whatever the others believe, and messages that are lost cost
// a pause. Two replicas at one app are expected.
//
// # What keeps that harmless
//
//   - D1. Each write has a precondition: a UID and a resourceVersion, or for a pod that is made its name, which is the
//     app's and an ordinal. Of two writers the second is refused.
//   - D2. The finalizer is there before the first pod, and goes when no pod of the app is left.
//   - D3. A pod is the app's if the app's UID owns it. A label says nothing.
//   - D4. What was reconciled by a configuration is not reconciled by an older one: its version is in the status.
//   - D5. A message makes work due, and nothing else. It has no configuration in it and no object, only that there may be a
//     newer one; both are read from the API server. So a message that is lost, late, repeated or forged costs a look.
//   - D6. A status that is written makes nothing due, and is told to nobody: it would go on for ever.
//
// All calls of a Core are to come from one goroutine; Plan may be called from any.
package distributedapp
