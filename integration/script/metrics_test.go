package script

import (
	"maps"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// contractMetrics lists the metrics that every agent publishes from its start: name, type and labels, without the
// namespace.
var contractMetrics = []struct {
	name, kind string
	labels     []string
}{
	{"members", "gauge", []string{"state"}},
	{"reachable_nodes", "gauge", nil},
	{"suspect_nodes", "gauge", nil},
	{"quorum_size", "gauge", nil},
	{"has_quorum", "gauge", nil},
	{"verdict", "gauge", []string{"reason"}},
	{"network_reachable_nodes", "gauge", []string{"network"}},
	{"network_health_score", "gauge", []string{"network"}},
	{"network_transitions_total", "counter", []string{"network", "to"}},
	{"name_conflicts_total", "counter", []string{"network"}},
	{"gossip_parameter", "gauge", []string{"network", "name"}},
	{"gossip_packets_total", "counter", []string{"network", "direction"}},
	{"gossip_bytes_total", "counter", []string{"network", "direction"}},
	{"watchdog_armed", "gauge", nil},
	{"watchdog_feeds_total", "counter", nil},
	{"watchdog_timeout_seconds", "gauge", nil},
	{"watchdog_feed_slack_seconds", "histogram", nil},
	{"lun_io_seconds", "histogram", []string{"device", "op"}},
	{"lun_io_errors_total", "counter", []string{"device", "op"}},
	{"lun_healthy", "gauge", []string{"device"}},
	{"lun_io_timeout_seconds", "gauge", nil},
	{"lun_lease_held", "gauge", nil},
	{"tiebreak_total", "counter", []string{"breaker", "outcome"}},
	{"tiebreak_seconds", "histogram", nil},
	{"events_total", "counter", []string{"type"}},
	{"subscribers", "gauge", nil},
	{"event_delivery_seconds", "histogram", nil},
	{"decision_seconds", "histogram", nil},
	{"build_info", "gauge", []string{"version"}},
}

// cmdMetrics is "metrics NODE": all metrics of the contract exist, with a sample, the right type and the right labels;
// node and LUN must be configured.
func cmdMetrics(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: metrics NODE")
	}
	_, body, err := get(ts, args[0], "/metrics")
	ts.Check(err)
	kinds, labels := parseMetrics(body)
	for _, m := range contractMetrics {
		name := "fencing_agent_" + m.name
		if kinds[name] != m.kind {
			ts.Logf("%s: type %q, want %s", name, kinds[name], m.kind)
			neg = true
			continue
		}
		have, want := slices.Sorted(maps.Keys(labels[name])), slices.Sorted(slices.Values(m.labels))
		if !slices.Equal(have, want) {
			ts.Logf("%s: labels %v, want %v", name, have, want)
			neg = true
		}
	}
	if neg {
		ts.Fatalf("metrics of the contract are missing")
	}
}

// parseMetrics returns the type of each metric that has a sample, and its labels.
func parseMetrics(text string) (kinds map[string]string, labels map[string]map[string]bool) {
	declared := map[string]string{}
	kinds, labels = map[string]string{}, map[string]map[string]bool{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 4 && fields[0] == "#" && fields[1] == "TYPE" {
			declared[fields[2]] = fields[3]
			continue
		}
		if len(fields) < 2 || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, "{")
		name, _, _ = strings.Cut(name, " ")
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && declared[base] == "histogram" {
				name = base
			}
		}
		kinds[name] = declared[name]
		if labels[name] == nil {
			labels[name] = map[string]bool{}
		}
		rest, _, _ = strings.Cut(rest, "}")
		for pair := range strings.SplitSeq(rest, ",") {
			if label, _, ok := strings.Cut(pair, "="); ok && label != "le" {
				labels[name][label] = true
			}
		}
	}
	return kinds, labels
}
