// Package apicheck asks the Kubernetes API server, again and again, whether it is there.
// The core uses the answer at an equal split, as evidence of which half the rest of the
// cluster still sees.
//
// # What counts as reachable
//
// A check is GET /readyz, and GET /livez when that is forbidden or unknown: the former
// where anonymous or restricted access was taken away, the latter before Kubernetes 1.16.
// The server has to prove itself by its certificate. Then
//
//   - 2xx and 4xx are reachable. Being unauthorized, forbidden or throttled says that the
//     control plane works and can be reached, which is all that is asked; a mistake in RBAC
//     or an expired token, which would hit all nodes alike, must not look like an isolation.
//   - 5xx are not. A proxy in front of dead servers answers so, and so does a server that
//     lost its etcd: neither can decide anything for a half of the cluster.
//   - 3xx are not, and are not followed. An API server redirects neither path, so it was
//     somebody else who answered.
//   - No answer within the timeout is not.
//
// When in doubt the answer is "not reachable": if one half too few survives, people can repair that; if both halves
// survive, they damage their shared disks.
//
// # Behaviour
//
// [Checker.Run] owns the only goroutine, calls Config.OnResult from it and returns after its
// context ended. Results are dated by the start of the check, so that the age of an answer
// is never understated. A check ends with its timeout, unless an exec plugin of the kubeconfig
// has to fetch credentials: that cannot be interrupted. While there is no new result, the last
// one grows old.
//
// Connections are HTTP/1.1 and kept alive between checks. A check that times out takes its
// connection with it and one that fails closes it, so that the next check dials again and
// may reach another server behind a load balancer. For most of a minute HTTP/2 would keep a connection whose peer is
// gone.
//
// Errors of configuration are returned by [New]. Errors of a check are logged when the
// answer changes, and reported as unreachable.
package apicheck
