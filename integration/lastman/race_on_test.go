//go:build race

package lastman

// raceEnabled: what runs here is one goroutine, so there is less of it.
const raceEnabled = true
