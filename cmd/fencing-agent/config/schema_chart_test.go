package config

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the agent's configuration into the chart's schema")

// The chart's schema refuses what the agent's configuration does not have, and accepts what it has: the definition is
// generated from the agent's own types.
func TestSchemaOfTheChartIsThatOfTheAgent(t *testing.T) {
	want, duration := schemas()
	want["description"] = "Configuration of the agent; its keys are in docs/configuration.md. Made by go test ./cmd/fencing-agent/config -update."
	keys := want["properties"].(map[string]any)
	for key, why := range map[string]string{"nodeName": "is set from the pod", "nodeGroup": "is the name of the group"} {
		keys[key] = map[string]any{"not": map[string]any{}, "description": why}
	}
	text := schemaLines(t, want, "    ")
	const path = "../../../deploy/chart/values.schema.json"
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "    \"config\": ", ",\n    \"monitor\": {"
	before, rest, found := strings.Cut(string(have), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s: no definition between %q and %q", path, begin, end)
	}
	whole := before + begin + text + ",\n    \"duration\": " + schemaLines(t, duration, "    ") + end + after
	if *update {
		if err := os.WriteFile(path, []byte(whole), 0o644); err != nil { //nolint:gosec // the mode that the file has
			t.Fatal(err)
		}
		return
	}
	if whole != string(have) {
		t.Errorf("%s has another configuration than the agent: run go test ./cmd/fencing-agent/config -update", path)
	}
}

// schemaLines prints a schema with one key of the configuration a line.
func schemaLines(t *testing.T, schema map[string]any, indent string) string {
	t.Helper()
	plain := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	keys, ok := schema["properties"].(map[string]any)
	if items, list := schema["items"].(map[string]any); list && items["properties"] != nil {
		return "{\n" + indent + `  "type": "array",` + "\n" + indent + `  "items": ` + schemaLines(t, items, indent+"  ") + "\n" + indent + "}"
	}
	if !ok {
		return plain(schema)
	}
	var b strings.Builder
	b.WriteString("{\n")
	for _, key := range slices.Sorted(maps.Keys(schema)) {
		if key != "properties" {
			b.WriteString(indent + "  " + plain(key) + ": " + plain(schema[key]) + ",\n")
		}
	}
	b.WriteString(indent + `  "properties": {` + "\n")
	for i, key := range slices.Sorted(maps.Keys(keys)) {
		b.WriteString(indent + "    " + plain(key) + ": " + schemaLines(t, keys[key].(map[string]any), indent+"    "))
		if i < len(keys)-1 {
			b.WriteString(",")
		}
		b.WriteString("\n")
	}
	b.WriteString(indent + "  }\n" + indent + "}")
	return b.String()
}
