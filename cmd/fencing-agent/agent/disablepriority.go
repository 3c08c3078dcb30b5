package agent

import (
	"slices"
	"sync"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

// opinion is the answer of one source about a maintenance.
type opinion int

const (
	silent opinion = iota // it has no answer
	under                 // the node is under maintenance
	none                  // the node is not under maintenance
)

// decides returns the source that decides: the first one with an answer. With any it returns each source that reports a
// maintenance.
func decides(order []config.DisableSource, says map[config.DisableSource]opinion) (of []config.DisableSource) {
	if len(order) == 0 {
		for _, s := range []config.DisableSource{config.DisableFile, config.DisableNode} {
			if says[s] == under {
				of = append(of, s)
			}
		}
		return of
	}
	for _, s := range order {
		if says[s] != silent {
			if says[s] == under {
				of = append(of, s)
			}
			return of
		}
	}
	return nil
}

// maintenances holds the answers of the sources of maintenance, and which source decides (watchdog.disableFirst,
// docs/adr/0060). Any goroutine may use it.
//
// Invariant: the core gets both sources in one step. Otherwise the node would be armed for a moment while one source
// replaces the other.
type maintenances struct {
	order []config.DisableSource

	mu   sync.Mutex
	says map[config.DisableSource]opinion
	why  map[config.DisableSource]string
}

// outweighs returns why a source has no effect: a source with priority reports that there is no maintenance. Empty: the
// source has an effect.
func (m *maintenances) outweighs(source config.DisableSource) (why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.order {
		switch {
		case s == source, m.says[s] == under:
			return ""
		case m.says[s] == none:
			return m.why[s]
		}
	}
	return ""
}

// disarmNames maps the sources to those of the core's signals.
var disarmNames = map[config.DisableSource]string{config.DisableFile: "file", config.DisableNode: "annotation"}

// take records the answer of a source, and passes on the signals of all sources. tell must not block; if two sources
// call, the later state is passed on last.
func (m *maintenances) take(s config.DisableSource, o opinion, why string, tell func(map[string]string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.says == nil {
		m.says, m.why = map[config.DisableSource]opinion{}, map[config.DisableSource]string{}
	}
	m.says[s], m.why[s] = o, why
	out, of := map[string]string{}, decides(m.order, m.says)
	for source, name := range disarmNames {
		if out[name] = ""; slices.Contains(of, source) {
			out[name] = m.why[source]
		}
	}
	tell(out)
}
