// Package race tells tests whether they run under the race detector. It makes everything some ten times slower:
// what only measures is left out then, and of random schedules there are fewer.
package race
