//go:build race

package rejoin

const raceEnabled = true
