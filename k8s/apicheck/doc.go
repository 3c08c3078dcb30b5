// Package apicheck asks the Kubernetes API server on a timer whether it is reachable. The core uses the answer in an
// equal split, as evidence of which half the rest of the cluster still sees.
//
// # What counts as reachable
//
// A check is GET /readyz. If that is forbidden (no anonymous or restricted access) or unknown (before Kubernetes 1.16),
// the check is GET /livez. The server has to prove its identity by its certificate. Then
//
//   - 2xx and 4xx are reachable. "Unauthorized", "forbidden" and "too many requests" come from a control plane that works
//     and can be reached, and nothing else is asked. A mistake in RBAC or an expired token would hit all nodes alike, and
//     must not look like isolation.
//   - 5xx are not reachable. A proxy in front of dead servers answers so, and so does a server that has lost its etcd:
//     neither can decide anything for a half of the cluster.
//   - 3xx are not reachable, and are not followed. An API server redirects neither path, so something else has answered.
//   - No answer within the timeout is not reachable.
//
// When in doubt the answer is "not reachable". If one half too few survives, people can repair that; if both halves
// survive, they damage their shared disks.
//
// # Behaviour
//
// [Checker.Run] has the only goroutine. It calls Config.OnResult from it, and returns after its context has ended. A
// result is dated by the start of its check, so that the age of an answer is never understated. A check ends with its
// timeout, with one exception: an exec plugin of the kubeconfig that fetches credentials cannot be interrupted. While
// there is no new result, the last one grows old.
//
// Connections are HTTP/1.1 and are kept between checks. A check that times out or fails closes its connection. The next
// check then dials again, and may reach another server behind a load balancer. HTTP/2 would keep a connection to a dead
// server for almost a minute.
//
// [New] returns errors of configuration. Errors of a check are logged when the answer changes, and reported as
// unreachable.
package apicheck
