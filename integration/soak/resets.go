package soak

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// bootTime is the shortest time for which a node that was reset is off. It stays off during the faults of its round: a
// real machine takes longer to boot than any of them lasts.
const bootTime = 3 * time.Second

// Reset is a reset by a watchdog.
type Reset struct {
	Node     string
	At       time.Time
	Sentence bool   // the countdown belonged to a node that had condemned itself
	Reason   string // of the last verdict that the node published
}

// resets holds the watchdogs of the agents, and what they have done.
type resets struct {
	agents *lab.Agents
	dogs   *lab.Watchdogs // nil: the agents run dry
	wg     sync.WaitGroup
	done   chan struct{} // closed by close

	disturbing sync.Mutex // held while faults last

	mu      sync.Mutex // guards the fields below, and an agent's start against its node's reset
	verdict func(node string) string
	off     map[string]bool
	all     []Reset
	errs    []error
}

func newResets(agents *lab.Agents, launcher []string) (*resets, error) {
	r := &resets{agents: agents, done: make(chan struct{}), off: map[string]bool{}, verdict: func(string) string { return "not known" }}
	if launcher == nil {
		return r, nil
	}
	var err error
	r.dogs, err = agents.Watchdogs(r.fired, launcher...)
	return r, err
}

// fired takes the node down, and boots it when the faults are over.
func (r *resets) fired(node string, timeout time.Duration) {
	r.mu.Lock()
	reason := r.verdict(node)
	r.off[node] = true
	r.all = append(r.all, Reset{node, time.Now(), timeout <= watchdog.MaxSentence, reason})
	r.note(r.agents.Kill(node))
	r.mu.Unlock()
	r.wg.Go(func() {
		select {
		case <-time.After(bootTime):
		case <-r.done:
			return
		}
		r.disturbing.Lock()
		defer r.disturbing.Unlock()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.dogs.Boot(node)
		delete(r.off, node)
		r.note(r.agents.Reboot(node))
	})
}

// setVerdict sets the function that knows the last verdict of a node.
func (r *resets) setVerdict(f func(node string) string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verdict = f
}

// note records an error. The caller holds mu.
func (r *resets) note(err error) {
	if err != nil {
		r.errs = append(r.errs, err)
	}
}

// faults keeps reset nodes from booting until the returned function is called.
func (r *resets) faults() (end func()) {
	r.disturbing.Lock()
	return r.disturbing.Unlock
}

// boot gives a node another boot because of a fault: no countdown runs.
func (r *resets) boot(node string) {
	if r.dogs != nil {
		r.dogs.Boot(node)
	}
}

func (r *resets) isOff(node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.off[node]
}

func (r *resets) unlessOff(node string, f func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.off[node] {
		return nil
	}
	return f()
}

// since returns the resets since a moment.
func (r *resets) since(at time.Time) []Reset {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all[slices.IndexFunc(append(r.all, Reset{At: at}), func(x Reset) bool { return !x.At.Before(at) }):])
}

// trouble returns the errors other than resets.
func (r *resets) trouble() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.errs)
}

func (r *resets) close() {
	if r.dogs != nil {
		_ = r.dogs.Close() // no watchdog fires after this
	}
	close(r.done)
	r.wg.Wait()
}

// wasReset reports whether the node is among the reset ones.
func wasReset(all []Reset, nodes ...string) bool {
	return slices.ContainsFunc(all, func(x Reset) bool { return slices.Contains(nodes, x.Node) })
}

func countResets(all []Reset) map[string]int {
	out := map[string]int{}
	for _, x := range all {
		how := "by time"
		if x.Sentence {
			how = "by sentence"
		}
		out[fmt.Sprintf("%s, %s", how, x.Reason)]++
	}
	return out
}
