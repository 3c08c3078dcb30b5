// Package sightings is the form in which agents say in the cluster what speaks against fencing a node by its devices: that
// its slot on the LUN goes on changing, that it has lost its storage, and that this agent itself has lost quorum
// (docs/adr/0065). It is the annotation [Annotation] of the Node on which the agent runs, in JSON. The agent writes it (by
// k8s/marks), or tells it a controller, which keeps it (docs/adr/0061); fencing-controller reads it.
//
// A sighting permits nothing and proves nothing. It is no part of a death (k8s/deaths).
//
// All functions are pure: they block on nothing, and may be called from any goroutine.
package sightings
