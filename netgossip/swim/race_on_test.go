//go:build race

package swim_test

// raceDetector makes everything ten times slower; what only measures is skipped.
const raceDetector = true
