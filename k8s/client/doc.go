// Package client makes the REST clients by which the agent talks to the Kubernetes API:
// one configuration, one set of connections and one count of requests for all of them.
//
// # What it decides
//
// [New] reads the kubeconfig, or the service account of the pod, and does not connect.
// [Client.For] gives the client of one API group; the typed clientset would bring all of
// Kubernetes' API groups into the agent, and k8s.io/api/core/v1 every type of that group: of a
// Node the agent reads what [Node] has. Requests are encoded as protobuf where the server can. Nothing is retried
// here: callers know whether a retry is worth it, and [RetryAfter] returns what the server asked for.
//
// Requests that start one after the other without a pause are slowed down to [QPS] a second
// after a burst of [Burst], all clients of one [Client] together; it bounds what a mistake
// in a caller can do to the API server.
//
// # Concurrency
//
// A Client is immutable and safe for concurrent use. A request blocks until its context
// ends; callers give every request one with a deadline, watches excepted. None of this is
// called from the agent's loop or from the feeder.
//
// # Errors
//
// Errors of the configuration are returned by New and say which key to change. Errors of requests are those of
// client-go; use k8s.io/apimachinery/pkg/api/errors to distinguish them.
package client
