// Package fenceconfig reads how nodes are fenced: ConfigMaps that say by which devices, which fence agents and in which
// order a node is isolated, switched off and on, and taken back.
//
// [Read] takes the data of all ConfigMaps of one namespace and returns what it found in them, with all problems at once.
// A node with a problem that is not a mere warning is [Node.Broken]: nothing is started for it. ConfigMaps are
// written by hand and may be incomplete. A missing action, an on without its off, and an off whose failure would not
// matter are refused, since an agent's default action is to reboot.
//
// [Config.Steps] puts the methods of a step into the order in which they run. Invariant: in power_management no on
// comes before the last off, however they are listed: a node with two supplies is off only when both are.
//
// Both the controller and the executor use [Merge]: the controller plans with it, and the executor, which alone sees
// secrets, runs the result. [Digest] shows the executor that it read what the controller had read.
//
// Callers: k8s/nodefence (the types), k8s/fencing (any goroutine), cmd/fencing-executor and fencectl. All functions are
// pure; the text of a ConfigMap never makes them panic (fuzzed).
package fenceconfig
