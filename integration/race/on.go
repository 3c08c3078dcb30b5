//go:build race

package race

// Detector reports whether the race detector is on.
const Detector = true
