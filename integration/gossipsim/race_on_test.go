//go:build race

package gossipsim

// raceDetector makes everything ten times slower; large simulations are skipped.
const raceDetector = true
