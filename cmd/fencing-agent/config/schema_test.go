package config

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// schemaKeys walks a schema and collects the paths of all keys and of all closed sections.
func schemaKeys(path string, schema map[string]any, keys, sections map[string]bool) {
	if items, ok := schema["items"].(map[string]any); ok {
		path, schema = path+"[]", items
	}
	of, ok := schema["properties"].(map[string]any)
	if !ok {
		return
	}
	if schema["additionalProperties"] == false {
		sections[path] = true
	}
	for key, s := range of {
		keys[child(path, key)] = true
		schemaKeys(child(path, key), s.(map[string]any), keys, sections)
	}
}

// nested returns a file in which the path has the value; every list on the path has one element.
func nested(path string, value any) any {
	key, rest, more := strings.Cut(path, ".")
	inner := value
	if more {
		inner = nested(rest, value)
	}
	if name, list := strings.CutSuffix(key, "[]"); list {
		return map[string]any{name: []any{inner}}
	}
	return map[string]any{key: inner}
}

// unknown decodes a file and reports whether the decoder calls the key unknown.
func unknown(t *testing.T, file any) bool {
	t.Helper()
	text, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	r := newReport()
	r.decodeFile(text, Default())
	return slices.ContainsFunc(r.problems, func(p Problem) bool { return strings.HasPrefix(p.What, "is not a known key") })
}

// The schema and the decoder know the same keys. The test gives files to the decoder, and walks the schema.
func TestSchemaKnowsTheKeysOfTheDecoder(t *testing.T) {
	keys, sections := map[string]bool{}, map[string]bool{}
	schema, _ := schemas()
	schemaKeys("", schema, keys, sections)
	if len(keys) < 70 || len(sections) < 10 {
		t.Fatalf("%d keys, %d sections", len(keys), len(sections))
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if unknown(t, nested(k, "x")) {
			t.Errorf("the schema has %s, the decoder has not", k)
		}
	}
	for at := range sections {
		if file := nested(child(at, "noSuchKey"), "x"); at == "" && !unknown(t, map[string]any{"noSuchKey": "x"}) || at != "" && !unknown(t, file) {
			t.Errorf("the schema closes %q, the decoder does not", at)
		}
	}
	for _, k := range Keys() { // the keys that the decoder accepts
		if !keys[k] {
			t.Errorf("the decoder has %s, the schema has not", k)
		}
	}
	// full.yaml has every key. A YAML reader parses it here, not the decoder.
	text, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file any
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for k := range fileKeys("", file) {
		if k != "reachability.atLeast" && !strings.HasPrefix(k, "members.static[].addresses.") && !keys[k] {
			t.Errorf("full.yaml has %s, the schema has not", k)
		}
	}
}

func fileKeys(path string, v any) map[string]bool {
	out := map[string]bool{}
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			out[child(path, key)] = true
			maps.Copy(out, fileKeys(child(path, key), value))
		}
	case []any:
		for _, value := range v {
			maps.Copy(out, fileKeys(path+"[]", value))
		}
	}
	return out
}
