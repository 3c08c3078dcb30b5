// Package operator is the adapter between k8s/distributedapp and an API server, by controller-runtime.
//
// A [Runner] is one replica. Informers tell it of DistributedApps, of their pods and of the ConfigMap with the operator's
// configuration; gossip brings the messages of the others. All of that goes into one queue, and [Runner.Start] is the one
// goroutine that hands it to the core and does what the core calls due. A look at an app reads the app and the pods of
// its namespace from the API server, not from the informers' caches, and makes the one write that
// [distributedapp.Plan] returns. Looks are made by goroutines of their own, one at a time for each app.
//
// # What each write rests on
//
//   - O1. A patch has the UID and the resourceVersion of the app as it was read.
//   - O2. A deletion has the UID and the resourceVersion of the pod as it was read.
//   - O3. A pod is made by its full name, so that of two writers the second is refused.
//   - O4. A configuration is taken up as a whole or not at all, with the version of the ConfigMap that was read.
//
// Receive, Wake and the handlers of informers may be called from any goroutine; they do not block.
package operator
