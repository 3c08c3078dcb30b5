package machine

import "time"

// readTSC reads the counter that QEMU's emulation passes on to its guests.
func readTSC() uint64

const (
	tscSpan  = 300 * time.Millisecond
	tscTries = 50
)

// TSCKilohertz measures the frequency of the counter, or returns 0 if it is unknown on this processor. A guest whose
// processor is shared measures it badly, and its seconds would have a wrong length from then on. The function blocks
// for tscSpan.
func TSCKilohertz() uint64 {
	began, from := tscNow()
	timer := time.NewTimer(tscSpan)
	<-timer.C
	ended, to := tscNow()
	return uint64(float64(to-from) / float64(ended.Sub(began).Nanoseconds()) * 1e6)
}

// tscNow reads both clocks at one moment. It uses the fastest of several attempts, because the process may have been
// stopped between the two reads.
func tscNow() (at time.Time, ticks uint64) {
	best := time.Duration(1<<63 - 1)
	for range tscTries {
		before := time.Now()
		t := readTSC()
		if took := time.Since(before); took < best {
			best, at, ticks = took, before, t
		}
	}
	return at, ticks
}
