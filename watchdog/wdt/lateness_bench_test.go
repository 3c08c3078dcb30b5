package wdt

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"
)

// burnChild makes this test binary use one processor until its standard input is closed.
const burnChild = "WDT_BURN_CHILD"

// TestBurnChild is no test of its own.
func TestBurnChild(*testing.T) {
	if os.Getenv(burnChild) == "" {
		return
	}
	done := make(chan struct{})
	go func() {
		var b [1]byte
		_, _ = os.Stdin.Read(b[:])
		close(done)
	}()
	for turns := 0; ; turns++ {
		if turns%1000 != 0 {
			continue
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// burn loads every processor twice until the benchmark ends.
func burn(b *testing.B) {
	b.Helper()
	for range 2 * runtime.NumCPU() {
		cmd := exec.Command(os.Args[0], "-test.run=^TestBurnChild$")
		cmd.Env = append(os.Environ(), burnChild+"=1", "GOMAXPROCS=2")
		in, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = in.Close() // ends the child
			_ = cmd.Wait() // which has nothing to say
		})
	}
}

// BenchmarkNapLateness measures by how much the feeder's turn comes late, on an idle and on
// a loaded host, as an ordinary and as a real-time feeder waits. The decision loop has no
// part in it: a blocked one delays nothing.
func BenchmarkNapLateness(b *testing.B) {
	const turn = 10 * time.Millisecond
	for _, load := range []string{"idle", "loaded"} {
		for _, kind := range []string{"ordinary", "realtime"} {
			b.Run(load+"/"+kind, func(b *testing.B) {
				if load == "loaded" {
					burn(b)
				}
				var n napper = newRuntimeNap()
				finished := make(chan []time.Duration)
				go func() {
					runtime.LockOSThread() // for good: the thread ends with the goroutine
					if kind == "realtime" {
						n, _ = newKernelNap()
						if err := (linuxHost{proc: "/proc"}).scheduleRealtime(realtimePriority); err != nil {
							b.Logf("no real-time priority: %v", err)
						}
					}
					late := make([]time.Duration, 0, b.N)
					for range b.N {
						began := time.Now()
						n.nap(turn)
						late = append(late, time.Since(began)-turn)
					}
					n.close()
					finished <- late
				}()
				late := <-finished
				slices.Sort(late)
				b.ReportMetric(float64(late[len(late)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "p99-µs")
				b.ReportMetric(float64(late[len(late)-1].Microseconds()), "max-µs")
			})
		}
	}
}
