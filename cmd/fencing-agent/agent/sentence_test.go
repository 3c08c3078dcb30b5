package agent

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
	"github.com/fencing-agent/fencing-agent/watchdog/watchdogtest"
)

// Guard: P2'. The next agent takes the lock's release for the moment at which this agent's last countdown began. So
// only the kernel releases the lock, when it closes the watchdog.
func TestLockOutlivesTheAgent(t *testing.T) {
	for name, given := range map[string]bool{"a real watchdog": false, "that of a test": true} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			cfg.API.Socket = filepath.Join(t.TempDir(), "run", "agent.sock")
			cfg.Members.CacheFile = filepath.Join(t.TempDir(), "members")
			a := &Agent{cfg: cfg, box: newMailbox(1, numbered(2)), log: slog.New(slog.NewTextHandler(io.Discard, nil))}
			if given {
				a.opts.Watchdog = watchdogtest.New(watchdogtest.Config{Clock: func() boottime.Instant { return 1 }})
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				a.holdLock(ctx, true)
			}()
			alone := func() bool {
				b := newBatch(1, 2)
				a.box.take(&b)
				return b.alone
			}
			for !alone() {
				runtime.Gosched()
			}
			cancel()
			<-ended
			runtime.GC()
			release, free, err := statefile.Lock(cfg.LockFile())
			if err != nil || free != given {
				t.Fatalf("free %v, %v", free, err)
			}
			if free {
				release()
			}
		})
	}
}
