// Package client creates the REST clients by which the agent talks to the Kubernetes API. They share one configuration,
// one set of connections and one count of requests.
//
// # What it decides
//
// [New] reads the kubeconfig, or the service account of the pod, and does not connect. [Client.For] returns the client
// of one API group. The typed clientset is not used, because it would link all of Kubernetes' API groups into the
// agent. Nor is k8s.io/api/core/v1, which would link every type of that group: of a Node the agent only reads the
// fields of [Node]. Requests are encoded as protobuf if the server accepts it. Nothing is retried here: callers decide
// whether a retry makes sense, and [RetryAfter] returns the time that the server asked for.
//
// Requests that follow each other without a pause are slowed down to [QPS] a second after a burst of [Burst]. The limit
// applies to all clients of one [Client] together. It bounds the load that a mistake in a caller can put on the API
// server.
//
// # Concurrency
//
// A Client is immutable and safe for concurrent use. A request blocks until its context ends. Callers give every
// request except a watch a context with a deadline. None of this is called from the agent's loop or from the feeder.
//
// # Errors
//
// New returns errors of the configuration, and they name the key to change. Errors of requests are those of client-go;
// use k8s.io/apimachinery/pkg/api/errors to distinguish them.
package client
