package recorder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/history"
)

const slots = 64

func config(t *testing.T, path string, boot uint64) Config {
	return Config{Path: path, Slots: slots, Boot: boot, Clock: boottime.Now, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Reg: prometheus.NewRegistry()}
}

// live runs a recorder until all records are on disk.
func live(t *testing.T, c Config, notes ...history.Record) *Recorder {
	t.Helper()
	r := New(c)
	for _, n := range notes {
		r.Note(n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for testutil.ToFloat64(r.written) < float64(len(notes)) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("nothing was written")
		}
	}
	cancel()
	<-done
	return r
}

func read(t *testing.T, path string) history.File {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := history.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestOverTheReset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "history")
	live(t, config(t, path, 1), history.Record{Kind: history.Started}, history.Record{Kind: history.LastWords, Reason: "quorum_lost", Text: "alone"})
	r := live(t, config(t, path, 2), history.Record{Kind: history.Started})
	e := r.Before()
	if e == nil || e.Boot != 1 || e.End != history.EndStarved || e.Reason != "quorum_lost" {
		t.Fatalf("%+v", e)
	}
	if got := r.Recent(); len(got) != 3 || got[2].Boot != 2 {
		t.Errorf("remembered: %+v", got)
	}
	f := read(t, path)
	if len(f.Records) != 3 || f.Records[2].Seq != 3 {
		t.Errorf("on disk: %+v", f.Records)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != history.Size(slots) {
		t.Errorf("%v, %v", info, err)
	}
}

func TestAnotherSizeKeepsTheLatest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	var notes []history.Record
	for i := range 50 {
		notes = append(notes, history.Record{Kind: history.Sample, Text: fmt.Sprint(i)})
	}
	live(t, config(t, path, 1), notes...)
	c := config(t, path, 2)
	c.Slots = 10
	live(t, c, history.Record{Kind: history.Started})
	f := read(t, path)
	if f.Slots != 10 || len(f.Records) != 10 || f.Records[9].Seq != 51 || f.Records[0].Seq != 42 {
		t.Errorf("%d slots, %+v", f.Slots, f.Records)
	}
}

func TestWhatCannotBeReadIsMovedAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(path, []byte("of somebody else"), 0o600); err != nil {
		t.Fatal(err)
	}
	live(t, config(t, path, 1), history.Record{Kind: history.Started})
	if text, err := os.ReadFile(path + ".unreadable"); err != nil || string(text) != "of somebody else" {
		t.Errorf("%q, %v", text, err)
	}
	if f := read(t, path); len(f.Records) != 1 {
		t.Errorf("%+v", f)
	}
}

func TestOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	s, _, err := openFile(path, slots)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := openFile(path, slots); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if s, _, err := openFile(path, slots); err != nil {
		t.Error(err)
	} else {
		_ = s.close()
	}
}

// broken is a disk that fails or hangs.
type broken struct {
	err  error
	hang chan struct{}
}

func (b *broken) put([]history.Record) error {
	if b.hang != nil {
		<-b.hang
	}
	return b.err
}
func (b *broken) close() error { return nil }

// TestADiskThatHangsDelaysNobody: calls return at once however long the disk takes, records that do not fit are
// counted, and the agent can stop.
func TestADiskThatHangsDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		c := config(t, "", 1)
		c.open = func(string, int) (store, history.File, error) { return &broken{hang: hang}, history.File{}, nil }
		c.Kernel = func(string) error { <-hang; return nil }
		r := New(c)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		r.Last(history.Record{Kind: history.LastWords})
		synctest.Wait() // both writers hang; how much they took before is not fixed
		began := time.Now()
		for range 10 * queued {
			r.Last(history.Record{Kind: history.LastWords})
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the notes took %v", took)
		}
		if got := testutil.ToFloat64(r.dropped); got < 8*queued {
			t.Errorf("%v were dropped", got)
		}
		if got := len(r.Recent()); got > remembered {
			t.Errorf("%d are remembered", got)
		}
		cancel()
		<-done
		if took := time.Since(began); took != stopPatience {
			t.Errorf("stopped after %v", took)
		}
		close(hang)
		synctest.Wait()
	})
}

func TestADiskThatFailsIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(t, "", 1)
		var log strings.Builder
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		b := &broken{err: errors.New("no space left on device")}
		opened := 0
		c.open = func(string, int) (store, history.File, error) {
			if opened++; opened < 3 {
				return nil, history.File{}, errors.New("read-only file system")
			}
			return b, history.File{}, nil
		}
		r := New(c)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		time.Sleep(3 * openRetry)
		for range 3 {
			r.Note(history.Record{Kind: history.Sample})
			synctest.Wait()
		}
		b.err = nil
		r.Note(history.Record{Kind: history.Sample})
		synctest.Wait()
		cancel()
		<-done
		if f, w := testutil.ToFloat64(r.failed), testutil.ToFloat64(r.written); f != 3 || w != 1 {
			t.Errorf("%v failed, %v written", f, w)
		}
		if got := strings.Count(log.String(), "level=WARN"); got != 2 {
			t.Errorf("told %d times:\n%s", got, &log)
		}
	})
}

func TestNilRecorder(t *testing.T) {
	var r *Recorder
	r.Note(history.Record{})
	r.Last(history.Record{})
	if r.Before() != nil || r.Recent() != nil {
		t.Error("it knows something")
	}
}
