//go:build !race

package race

// Detector says whether the race detector is on.
const Detector = false
