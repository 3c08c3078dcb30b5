// Package race reports whether tests run under the race detector, which makes everything about ten times slower. Tests
// that only measure are then skipped, and fewer random schedules are played.
package race
