//go:build !race

package script

// raceDetector is what the programs under test are built with.
const raceDetector = false
