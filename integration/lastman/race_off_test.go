//go:build !race

package lastman

const raceEnabled = false
