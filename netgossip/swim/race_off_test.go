//go:build !race

package swim_test

const raceDetector = false
