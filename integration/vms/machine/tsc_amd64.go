package machine

import "time"

// readTSC reads the counter that QEMU's emulation passes on to its guests.
func readTSC() uint64

const (
	tscSpan  = 300 * time.Millisecond
	tscTries = 50
)

// TSCKilohertz measures the frequency of that counter; 0: it is not known here. A guest measures it badly where its
// processor is shared, and would have seconds of its own from then on. It blocks for tscSpan.
func TSCKilohertz() uint64 {
	began, from := tscNow()
	timer := time.NewTimer(tscSpan)
	<-timer.C
	ended, to := tscNow()
	return uint64(float64(to-from) / float64(ended.Sub(began).Nanoseconds()) * 1e6)
}

// tscNow returns both clocks as of one moment: of some tries the one that took least: the process may have been stopped in between.
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
