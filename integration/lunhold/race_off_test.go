//go:build !race

package lunhold

const raceEnabled = false
