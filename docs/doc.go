// Package docs has the pages of this folder that programs show, so that there is one source for both. It has no state and
// no code.
package docs

import _ "embed"

// Configuration is configuration.md: sections, and a table row for each key of the agent.
//
//go:embed configuration.md
var Configuration string
