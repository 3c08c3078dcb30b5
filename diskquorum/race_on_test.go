//go:build race

package diskquorum

// raceEnabled: what runs here is one goroutine, so fewer schedules do.
const raceEnabled = true
