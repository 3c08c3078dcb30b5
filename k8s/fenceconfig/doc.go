// Package fenceconfig reads the ConfigMaps that define how nodes are fenced: by which devices, by which fence agents,
// and in which order a node is isolated, switched off and on, and taken back.
//
// [Read] takes the data of all ConfigMaps of one namespace. It returns the configuration and all problems at once. If a
// node has a problem that is more than a warning, it is [Node.Broken]: no fencing is started for it. ConfigMaps are
// written by hand and may be incomplete. Three mistakes are refused because an agent's default action is to reboot: a
// missing action, an on without its off, and an off whose failure would not matter.
//
// [Config.Steps] puts the methods of a step into the order in which they run. Invariant: in power_management no on
// comes before the last off, however they are listed: a node with two supplies is off only when both are.
//
// Both the controller and the executor use [Merge]: the controller plans with it, and the executor, which alone sees
// secrets, runs the result. By the [Digest] the executor checks that it has read the same as the controller.
//
// Callers: k8s/nodefence (the types), k8s/fencing (any goroutine), cmd/fencing-executor and fencectl. All functions are
// pure; the text of a ConfigMap never makes them panic (fuzzed).
package fenceconfig
