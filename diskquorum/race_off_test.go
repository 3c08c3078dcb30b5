//go:build !race

package diskquorum

const raceEnabled = false
