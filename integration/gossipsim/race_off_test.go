//go:build !race

package gossipsim

const raceDetector = false
