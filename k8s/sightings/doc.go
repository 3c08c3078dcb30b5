// Package sightings defines how agents report reasons against fencing a node by its devices: that its slot on the LUN
// keeps changing, that it has lost its storage, and that this agent itself has lost quorum (docs/adr/0065). The report
// is the annotation [Annotation], in JSON, of the Node on which the agent runs. The agent writes it (k8s/marks), or
// sends it to a controller, which stores it (docs/adr/0061). fencing-controller reads it.
//
// A sighting permits nothing and proves nothing. It is not a part of a death (k8s/deaths).
//
// All functions are pure: they do not block, and may be called from any goroutine.
package sightings
