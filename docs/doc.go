// Package docs has the pages of this folder that programs show, so that there is one source for both. It has no state and
// no code.
package docs

import _ "embed"

// Configuration and Tuning are the pages with a table row for each key of the agent; those below experimental are in
// tuning.md.
var (
	//go:embed configuration.md
	Configuration string
	//go:embed tuning.md
	Tuning string
)
