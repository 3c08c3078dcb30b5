// Package fenceconfig reads how nodes are fenced: ConfigMaps that say by which devices, which fence agents and in which
// order a node is isolated, switched off and on, and taken back.
//
// [Read] takes the data of all ConfigMaps of one namespace and returns what it found in them, with all problems at once.
// A node with a problem that is not a mere warning is [Node.Broken]: nothing is started for it. What is written by hand in
// ConfigMaps is not trusted to be complete: an action that is not given, an on without its off, an off whose failure
// would not matter, are refused, since an agent's default action is to reboot.
//
// [Config.Steps] puts the methods of a step into the order in which they run. Invariant: in power_management no on
// comes before the last off, however they are listed: a node with two supplies is off only when both are.
//
// [Merge] is what both the controller and the executor use: the controller plans with it, the executor, which alone sees
// secrets, runs what it comes to. [Digest] shows the executor that it read what the controller had read.
//
// Callers: k8s/nodefence (the types), k8s/fencing (any goroutine), cmd/fencing-executor and fencectl. All functions are
// pure; the text of a ConfigMap never makes them panic (fuzzed).
package fenceconfig
