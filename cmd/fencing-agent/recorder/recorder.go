package recorder

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/history"
)

const (
	queued       = 256             // records that wait for the disk
	remembered   = 4096            // records of the last day in memory
	day          = 24 * time.Hour  // how far Recent goes back
	openRetry    = 5 * time.Second // between two attempts to open the file
	stopPatience = time.Second     // for the last records, when the agent stops
)

// Config is what a Recorder needs.
type Config struct {
	Path  string // of the file
	Slots int    // records in it
	Boot  uint64 // nonce of the present boot
	Clock boottime.Clock
	Log   *slog.Logger
	// Kernel writes a line to the kernel's log; it may be nil. It may block.
	Kernel func(line string) error
	Reg    prometheus.Registerer
	// Opened is called with the result of each attempt to open the file; it may be nil.
	Opened func(error)

	open func(path string, slots int) (store, history.File, error) // of tests; nil: openFile
}

// store is where records go.
type store interface {
	// put writes records, and returns when they are durable.
	put(records []history.Record) error
	close() error
}

// Recorder stores records. All methods of a nil Recorder do nothing.
type Recorder struct {
	c      Config
	queue  chan history.Record
	lines  chan string
	before atomic.Pointer[history.Ending]

	mu     sync.Mutex
	recent []history.Record

	written, dropped, failed prometheus.Counter
}

// New creates a recorder. It touches no file.
func New(c Config) *Recorder {
	r := &Recorder{c: c, queue: make(chan history.Record, queued), lines: make(chan string, 4)}
	if r.c.open == nil {
		r.c.open = openFile
	}
	all := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "fencing_agent", Name: "history_records_total",
		Help: "Records for the history on disk: written; dropped, since the disk does not keep up; failed, since it refused them.",
	}, []string{"result"})
	if c.Reg != nil {
		c.Reg.MustRegister(all)
	}
	r.written, r.dropped, r.failed = all.WithLabelValues("written"), all.WithLabelValues("dropped"), all.WithLabelValues("failed")
	return r
}

// Note adds a record. It never blocks.
func (r *Recorder) Note(rec history.Record) {
	if r == nil {
		return
	}
	rec.Boot, rec.Up, rec.Wall = r.c.Boot, time.Duration(r.c.Clock()), time.Now()
	r.remember(rec)
	select {
	case r.queue <- rec:
	default:
		r.dropped.Inc()
	}
}

// Last adds last words, and also writes them to the kernel's log. It never blocks.
func (r *Recorder) Last(rec history.Record) {
	if r == nil {
		return
	}
	r.Note(rec)
	select {
	case r.lines <- rec.Line():
	default: // the console is too slow for a node that is about to be reset
	}
}

// Before is how the previous boot ended; nil: that is not known, or not known yet.
func (r *Recorder) Before() *history.Ending {
	if r == nil {
		return nil
	}
	return r.before.Load()
}

// Recent are the records of the last day, the earliest first. The caller owns the result.
func (r *Recorder) Recent() []history.Record {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]history.Record(nil), r.recent...)
}

func (r *Recorder) remember(recs ...history.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recent = append(r.recent, recs...)
	from, since := max(0, len(r.recent)-remembered), time.Now().Add(-day)
	for from < len(r.recent) && r.recent[from].Wall.Before(since) {
		from++
	}
	if from > len(r.recent)/4 || len(r.recent) > remembered {
		r.recent = append([]history.Record(nil), r.recent[from:]...)
	}
}

// recall puts the records on disk before those that were added meanwhile.
func (r *Recorder) recall(old []history.Record) {
	old = old[max(0, len(old)-remembered/2):]
	r.mu.Lock()
	r.recent = append(append([]history.Record(nil), old...), r.recent...)
	r.mu.Unlock()
	r.remember()
}

// Run writes until ctx ends, and then writes the remaining records, for at most stopPatience.
func (r *Recorder) Run(ctx context.Context) {
	var wg sync.WaitGroup
	if r.c.Kernel != nil {
		wg.Go(func() { r.speak(ctx) })
	}
	wg.Go(func() { r.keep(ctx) })
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	<-ctx.Done()
	t := time.NewTimer(stopPatience)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C: // the agent stops even if the disk hangs and the goroutine is stuck in the kernel
	}
}

// speak writes lines to the kernel's log.
func (r *Recorder) speak(ctx context.Context) {
	told := false
	for {
		select {
		case <-ctx.Done():
			return
		case line := <-r.lines:
			if err := r.c.Kernel(line); err != nil && !told {
				told = true
				r.c.Log.Warn("cannot write the last words to the kernel's log", "error", err)
			}
		}
	}
}

// keep is the goroutine that owns the file.
func (r *Recorder) keep(ctx context.Context) {
	s, next := r.begin(ctx)
	if s == nil {
		return
	}
	defer func() { _ = s.close() }() // what was written is durable
	var told bool
	for {
		batch := r.batch(ctx)
		if len(batch) == 0 {
			return
		}
		for i := range batch {
			batch[i].Seq = next
			next++
		}
		err := s.put(batch)
		switch {
		case err != nil:
			r.failed.Add(float64(len(batch)))
			if !told {
				r.c.Log.Warn("the history is not written; the agent goes on without it", "file", r.c.Path, "error", err)
			}
		default:
			r.written.Add(float64(len(batch)))
			if told {
				r.c.Log.Info("the history is written again", "file", r.c.Path)
			}
		}
		told = err != nil
	}
}

// batch waits for records and returns all of them; it returns none when ctx has ended and all are taken.
func (r *Recorder) batch(ctx context.Context) (out []history.Record) {
	select {
	case rec := <-r.queue:
		out = append(out, rec)
	case <-ctx.Done():
	}
	for {
		select {
		case rec := <-r.queue:
			out = append(out, rec)
		default:
			return out
		}
	}
}

// begin tries to open the file until it succeeds. nil: ctx has ended.
func (r *Recorder) begin(ctx context.Context) (store, uint64) {
	told := false
	for {
		s, f, err := r.c.open(r.c.Path, r.c.Slots)
		if r.c.Opened != nil {
			r.c.Opened(err)
		}
		if err == nil {
			if e, ok := history.Before(f.Records, r.c.Boot); ok {
				r.before.Store(&e)
				r.c.Log.Info("found out how the boot before this one ended", "end", string(e.End), "why", e.Text, "reason", e.Reason, "boot", fmt.Sprintf("%016x", e.Boot), "last_record", e.Last)
			}
			r.recall(f.Records)
			next := uint64(1)
			if n := len(f.Records); n > 0 {
				next = f.Records[n-1].Seq + 1
			}
			return s, next
		}
		if !told && r.c.Opened == nil {
			told = true
			r.c.Log.Warn("the history cannot be opened; the agent goes on without it and tries again", "file", r.c.Path, "error", err)
		}
		if boottime.Wait(ctx, openRetry); ctx.Err() != nil {
			return nil, 0
		}
	}
}
