// Package deaths is the form in which agents say in the cluster which nodes they have proven dead: a list in JSON, in
// the annotation [Annotation] of the Node on which the agent runs. The agent writes it (by k8s/marks), controllers
// read it.
//
// Each entry names the boot that ended, so that a reader can compare it with the bootID in the status of the dead
// node's Node ([Boot]): a death says nothing about any other boot. Readers ignore fields that they do not know, and
// entries that name no node or no boot.
//
// All functions are pure: they block on nothing, and may be called from any goroutine.
package deaths
