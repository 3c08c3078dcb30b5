// Package deaths defines how agents tell the cluster which nodes they have proven dead: as a list in JSON, in the
// annotation [Annotation] of the Node on which the agent runs. The agent writes it (k8s/marks), and controllers read
// it.
//
// Each entry names the boot that ended, so that a reader can compare it with the bootID in the status of the dead
// node's Node ([Boot]): a death means nothing for any other boot. Readers ignore fields that they do not know, and
// entries that name no node or no boot.
//
// All functions are pure: they do not block, and may be called from any goroutine.
package deaths
