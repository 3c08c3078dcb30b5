//go:build race

package agentsim

// raceDetector makes tests do less.
const raceDetector = true
