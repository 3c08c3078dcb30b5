package client

import (
	"bufio"
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// followVariable makes the test binary a subscriber of the socket that it names.
const followVariable = "FENCING_TEST_FOLLOW"

// betweenEvents is the pause in which all processes come to rest.
const betweenEvents = 20 * time.Millisecond

// sample holds the measurements of a subscriber in its own process.
type sample struct {
	Times     []time.Duration // from the decision to the callback, one for each event
	Processor time.Duration   // used by the process since it received the set
}

// BenchmarkDecisionToProcesses is BenchmarkDecisionToCallback with each subscriber in its own process and a pause after
// each event, as on a node. The event carries the time of the decision: all processes use the same clock. p50 and p99
// are over all deliveries, that is over events and subscribers. last-p50 is the median over the events of the time to
// the last subscriber. The stuck subscriber does not read its stream.
func BenchmarkDecisionToProcesses(b *testing.B) {
	for _, subscribers := range []int{1, 10, 100} {
		for _, stuck := range []bool{false, true} {
			b.Run(fmt.Sprintf("subscribers=%d/stuck=%v", subscribers, stuck), func(b *testing.B) {
				measureProcesses(b, subscribers, stuck)
			})
		}
	}
}

func measureProcesses(b *testing.B, subscribers int, stuck bool) {
	hub, path := serveOnSocket(b)
	if stuck {
		deaf(b, b.Context(), path)
	}
	all := make([]*process, subscribers)
	for i := range all {
		all[i] = startProcess(b, path)
		all[i].ready(b) // one after another: starting all at once would be a different measurement
	}
	pace := time.NewTicker(betweenEvents)
	defer pace.Stop()
	before, events := processorTime(), 0
	for b.Loop() {
		<-pace.C
		e := left(fmt.Sprintf("n%d", events%groupSize)) // so events of one node are groupSize events apart, and none can be merged
		if events/groupSize%2 == 1 {
			e = join(e.Node.Name)
		}
		e.Time = time.Now()
		hub.Publish(e)
		events++
	}
	agent := processorTime() - before
	var times []time.Duration
	last := make([]time.Duration, events)
	var others time.Duration
	for _, p := range all {
		s := p.end(b, events)
		times = append(times, s.Times...)
		others += s.Processor
		for i, t := range s.Times {
			last[i] = max(last[i], t)
		}
	}
	slices.Sort(times)
	slices.Sort(last)
	report := func(name string, d time.Duration, by int) {
		b.ReportMetric(float64(d.Nanoseconds())/float64(by), name)
	}
	report("p50-ns", times[len(times)/2], 1)
	report("p99-ns", times[len(times)*99/100], 1)
	report("last-p50-ns", last[len(last)/2], 1)
	report("agent-cpu-ns", agent, len(times))
	report("subscriber-cpu-ns", others, len(times))
	b.ReportMetric(0, "ns/op")
}

// processorTime returns the processor time that this process has used so far.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err) // it fails only for a wrong address
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// process is a subscriber in a process of its own.
type process struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func startProcess(b *testing.B, path string) *process {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), followVariable+"="+path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close() // this ends the process if it still runs
		_ = cmd.Wait()
	})
	return &process{in: in, out: bufio.NewReader(out)}
}

// ready waits until the process has the set.
func (p *process) ready(b *testing.B) {
	if line, err := p.out.ReadString('\n'); err != nil {
		b.Fatalf("a subscriber's process said %q: %v", line, err)
	}
}

// end waits until the process has received this many events, and returns its measurements.
func (p *process) end(b *testing.B, events int) (s sample) {
	if _, err := fmt.Fprintln(p.in, events); err != nil {
		b.Fatal(err)
	}
	if err := gob.NewDecoder(p.out).Decode(&s); err != nil {
		b.Fatal(err)
	}
	if len(s.Times) != events {
		b.Fatalf("a subscriber was told of %d events, want %d", len(s.Times), events)
	}
	return s
}

// followInProcess is the process of a subscriber: it reports that it has the set, reads the number of events, reports
// its measurements and ends. It also ends when its input ends.
func followInProcess(path string) error {
	var mu sync.Mutex // guards s and began
	var s sample
	var began time.Duration
	ready, more := make(chan struct{}), make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	followed := make(chan error, 1)
	go func() {
		followed <- Follow(ctx, Config{Socket: path}, func(u Update) {
			now := time.Now()
			mu.Lock()
			defer mu.Unlock()
			if began == 0 { // the set, or the report that there is none yet
				if u.InForce {
					began = processorTime()
					close(ready)
				}
				return
			}
			for _, e := range u.Edges {
				s.Times = append(s.Times, now.Sub(e.Time))
			}
			select {
			case more <- struct{}{}:
			default:
			}
		})
	}()
	<-ready
	fmt.Println("ready")
	var events int
	_, err := fmt.Scan(&events)
	told := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(s.Times)
	}
	for err == nil && told() < events {
		<-more
	}
	cancel()
	if ended := <-followed; err == nil {
		err = ended
	}
	if err != nil {
		return err
	}
	s.Processor = processorTime() - began
	return gob.NewEncoder(os.Stdout).Encode(s)
}
