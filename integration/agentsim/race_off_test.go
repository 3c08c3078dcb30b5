//go:build !race

package agentsim

const raceDetector = false
