// Package fencingv1 is the agent's public API on its Unix socket: the services Fencing (which nodes are available) and
// FencingStatus (why), generated from fencing.proto and status.proto by `make generate`. docs/api.md is the consumer's
// guide.
//
// The wire format of package fencing.v1 is a contract: existing numbers keep their meanings, and new fields get new
// numbers.
package fencingv1
