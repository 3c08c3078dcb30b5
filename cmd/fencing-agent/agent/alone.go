package agent

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
	"github.com/fencing-agent/fencing-agent/procfs"
)

// lockPatience is how long an agent that is about to exit may still have the lock.
const lockPatience = 2 * time.Second

// beAlone ends the start of a second agent of this node, whatever parts of the two agents are missing. It takes the
// lock that marks a running agent. If a killed agent still has the lock, this agent waits for it in the background
// (P2'), provided that it got the socket of the API, which a running agent would hold as well.
//
// Invariant: two agents of one node do not run at the same time under its name.
func (a *Agent) beAlone(background spawn) error {
	path := a.cfg.LockFile()
	for deadline := time.Now().Add(lockPatience); ; <-time.After(lockRetry) {
		release, ok, err := statefile.Lock(path)
		switch {
		case ok:
			a.guard.locked = true
			if a.opts.Watchdog != nil { // in a test, several agents run in one process
				background(func(ctx context.Context) {
					<-ctx.Done()
					release()
				})
			}
			return nil
		case err != nil:
			if a.published.parts.Lacks(socketPart(a.cfg.API.Socket)) {
				return fmt.Errorf("cannot find out whether another agent of this node runs: %w; make the folder of members.cacheFile writable for the agent", err)
			}
			return nil // holdLock reports it
		}
		who := statefile.Holder("/proc", path)
		running := who != 0 && who != os.Getpid() && !procfs.Killed("/proc", who)
		if !running && !a.published.parts.Lacks(socketPart(a.cfg.API.Socket)) {
			return nil // holdLock keeps trying
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("another agent of this node runs%s: it has a lock on %s; stop it first, or give this one a members.cacheFile of its own", process(who), path)
		}
	}
}

// lockPart is the lock among the parts of the agent.
const lockPart = "lock of the running agent"

func process(pid int) string {
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}
