package soak

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// recoverLimit is how long a cluster may take to recover after a round.
const recoverLimit = 60 * time.Second

// watchInterval limits the time between two checks of which nodes feed.
const watchInterval = 50 * time.Millisecond

// watcher follows the agents and checks what they do.
type watcher struct {
	*observe.Observer
	nodes  []string
	blinks bool // the LUN does, so that agents rightly call it too slow for a tie

	mu         sync.Mutex // guards all fields below
	disjoint   Disjoint
	stopped    map[string]bool // by a fault: killed, or not running for now
	violations []string
}

func (w *watcher) violated(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// Violations returns all violations so far.
func (w *watcher) Violations() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.violations...)
}

func (w *watcher) watch(ctx context.Context) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		v, changed := w.View()
		w.mu.Lock()
		found := w.disjoint.Observe(v.Now, w.feeders(v))
		w.violations = append(w.violations, found...)
		w.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-changed:
		case <-tick.C:
		}
	}
}

// feeders returns the last known state of all nodes. A process that was stopped or killed feeds nothing. One that is
// silent for another reason is assumed to feed on. The caller holds w.mu.
func (w *watcher) feeders(v *observe.View) map[string]Feeder {
	out := make(map[string]Feeder, len(w.nodes))
	for _, node := range w.nodes {
		f := Feeder{}
		s := v.Status[node]
		p := s.GetVerdict().GetPermission()
		f.Feeding = !w.stopped[node] && (p == fencingv1.Permission_PERMISSION_FEED || p == fencingv1.Permission_PERMISSION_HOLD)
		for _, n := range s.GetNodes() {
			if n.GetCounted() || n.GetName() == node {
				f.Counted = append(f.Counted, n.GetName())
			}
		}
		out[node] = f
	}
	return out
}

// setStopped records the nodes whose process a round keeps from running.
func (w *watcher) setStopped(r Round, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = map[string]bool{}
	for _, f := range r.Faults {
		if on && f.Kind == Freeze {
			w.stopped[nodeName(f.Nodes[0])] = true
		}
	}
}

// everybody holds when all nodes feed by a majority, count, reach and list each other, and have the LUN.
func (w *watcher) everybody() observe.Condition {
	lun := observe.LUNReady(w.nodes...)
	if w.blinks {
		lun = observe.All()
	}
	return observe.All(
		observe.Feeding(fencingv1.Reason_REASON_NETWORK_QUORUM, w.nodes...), observe.Counting(w.nodes...),
		observe.Networks(true, networks, w.nodes), lun, observe.Subscribed(w.nodes...), w.available(),
	)
}

// available holds when every node lists every node.
func (w *watcher) available() observe.Condition {
	return func(v *observe.View) string {
		for _, node := range w.nodes {
			for _, n := range v.Status[node].GetNodes() {
				if !n.GetAvailable() {
					return node + " does not list " + n.GetName()
				}
			}
		}
		return ""
	}
}

// lastReason returns the reason of the last verdict that a node published. If the node has condemned itself, it returns
// the reason before that.
func (w *watcher) lastReason(node string) string {
	v, _ := w.View()
	for _, c := range slices.Backward(v.Verdicts) {
		if c.Node == node && c.Reason != fencingv1.Reason_REASON_CONDEMNED {
			return strings.ToLower(strings.TrimPrefix(c.Reason.String(), "REASON_"))
		}
	}
	return "it told none"
}

// judge compares the LEFTs since a moment with the possible effects of the round. A round without faults means calm.
//
// If a node was reset meanwhile, any node may be LEFT: reported by that node, or because of it.
func (w *watcher) judge(v *observe.View, r Round, since time.Time, reset []Reset) {
	for _, e := range v.Events {
		if wasReset(reset, e.Observer, e.Node) {
			continue
		}
		if e.At.After(since) && e.Type == fencingv1.EventType_LEFT && !r.MayLeave(indexOf(w.nodes, e.Observer), indexOf(w.nodes, e.Node)) {
			w.violated("round %d (%v): %s called %s LEFT %.2f s after it began, without a reason", r.Number, r, e.Observer, e.Node, e.At.Sub(since).Seconds())
		}
	}
}

func indexOf(nodes []string, name string) int {
	for i, n := range nodes {
		if n == name {
			return i
		}
	}
	return -1
}

// usage asks an agent how much its process uses.
func usage(ctx context.Context, client *http.Client) (u Usage, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:9110/metrics", nil)
	if err != nil {
		return u, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return u, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch name {
		case "process_resident_memory_bytes":
			u.Memory = x
		case "go_goroutines":
			u.Goroutines = x
		case "process_open_fds":
			u.Descriptors = x
		}
	}
	return u, lines.Err()
}
