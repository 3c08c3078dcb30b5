//go:build race

package main

// raceDetector makes tests do less.
const raceDetector = true
