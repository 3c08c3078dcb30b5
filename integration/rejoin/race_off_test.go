//go:build !race

package rejoin

const raceEnabled = false
