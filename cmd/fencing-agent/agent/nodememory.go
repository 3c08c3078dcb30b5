package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

// memoryRetry is the time between two attempts to store what is known of the Node.
const memoryRetry = 5 * time.Second

// nodeMemory is what the agent remembers of its Node over a restart. Without it, the agent cannot arm while the API
// server is unreachable; nothing else is lost.
//
// Invariant: after a restart the agent would rather know nothing of its Node than know an outdated state. With an
// outdated state it would arm during a maintenance that it had already seen. So a file that cannot be replaced is
// removed. A full disk allows that, and it makes room.
type nodeMemory struct {
	path, node string
	log        *slog.Logger
	rules      ownnode.Rules
	states     chan ownnode.State // capacity 1: the latest
	told       func(error)        // gets the outcome of each attempt; may be nil
	write      func(path string, text []byte) error

	// Owned by load, and then by run.
	saved  string // content of the file
	failed bool
}

func newNodeMemory(path, node string, log *slog.Logger, rules ownnode.Rules) *nodeMemory {
	return &nodeMemory{path: path, node: node, log: log, rules: rules, states: make(chan ownnode.State, 1), write: statefile.Write}
}

type nodeFile struct {
	Version int           `json:"version"`
	Node    string        `json:"node"`
	State   ownnode.State `json:"state"`
}

const nodeFileVersion = 1

// load returns what is remembered, or the zero State.
func (m *nodeMemory) load() ownnode.State {
	text, err := statefile.Read(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return ownnode.State{}
	}
	var f nodeFile
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err == nil && (f.Version != nodeFileVersion || f.Node != m.node) {
		err = fmt.Errorf("it belongs to node %q, format %d", f.Node, f.Version)
	}
	if err != nil {
		m.log.Warn("cannot use what this agent knew about this node's Node before the restart", "file", m.path, "error", err)
		return ownnode.State{}
	}
	m.saved = string(text)
	return f.State
}

// keep passes on the state to remember. It does not wait for the disk. Only one goroutine calls it.
func (m *nodeMemory) keep(s ownnode.State) {
	select {
	case <-m.states: // replaced by the newer state
	default:
	}
	m.states <- s
}

// run stores the states that keep passes on, and tries again as long as that fails.
func (m *nodeMemory) run(ctx context.Context) {
	var s ownnode.State
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			select {
			case s = <-m.states:
				m.save(s) // what was seen before the stop
			default:
			}
			return
		case s = <-m.states:
		case <-again:
		}
		again = nil
		if !m.save(s) {
			again = time.After(memoryRetry)
		}
	}
}

// save writes the part that the signals depend on, if it has changed, and reports whether the file has it.
func (m *nodeMemory) save(s ownnode.State) bool {
	text, err := json.Marshal(nodeFile{Version: nodeFileVersion, Node: m.node, State: m.rules.Memory(s)})
	if err != nil {
		return true
	}
	if string(text) != m.saved {
		if err = m.write(m.path, text); err != nil {
			m.saved = "" // the write may have been half done: the content of the file is unknown
			if statefile.Remove(m.path) == nil {
				err = m.write(m.path, text) // there may be room now
			}
		}
	}
	if m.told != nil {
		m.told(err)
	}
	switch {
	case err == nil:
		if m.failed {
			m.log.Info("what this agent knows about this node's Node can be stored again", "file", m.path)
		}
		m.saved, m.failed = string(text), false
		return true
	case !m.failed:
		m.log.Warn("cannot store what this agent knows about this node's Node: after a restart it would not arm the watchdog before it sees the Node again",
			"file", m.path, "error", err, "retry", memoryRetry)
	}
	m.failed = true
	return false
}
