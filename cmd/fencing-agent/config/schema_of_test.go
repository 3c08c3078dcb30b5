package config

import (
	"net/netip"
	"reflect"
	"strconv"
	"time"
)

// schemas returns the definitions of a JSON schema of configuration files, as far as a schema can express them: keys,
// types, choices and ranges of numbers. No key is required. They are generated from the struct into which a file is
// decoded, so that the chart refuses exactly what the agent would refuse. Config refers to duration.
func schemas() (config, duration map[string]any) {
	return schemaOf(reflect.TypeFor[Config](), ""),
		map[string]any{"anyOf": []any{map[string]any{"type": "string", "pattern": durations}, map[string]any{"const": 0}}}
}

// durations matches what time.ParseDuration accepts, except for negative durations, which no key allows.
const durations = `^[+]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+$|^[+]?0$`

func schemaOf(t reflect.Type, constraint reflect.StructTag) map[string]any {
	if t.Kind() == reflect.Pointer {
		return schemaOf(t.Elem(), constraint)
	}
	zero := reflect.New(t).Elem().Interface()
	if e, ok := zero.(enum); ok {
		return map[string]any{"enum": scalars(e.values())}
	}
	switch zero.(type) {
	case time.Duration:
		return described(map[string]any{"$ref": "#/definitions/duration"}, constraint.Get("range"))
	case netip.Addr, Place:
		return map[string]any{"type": "string"}
	case Size:
		return map[string]any{"anyOf": []any{map[string]any{"const": "auto"}, map[string]any{"type": "integer", "minimum": 1}}}
	case Reachability:
		return map[string]any{"anyOf": []any{
			map[string]any{"enum": []any{ReachableAny, ReachableAll}},
			section(map[string]any{"atLeast": map[string]any{"type": "integer", "minimum": 1}}),
		}}
	}
	switch t.Kind() {
	case reflect.Struct:
		keys := make(map[string]any)
		for _, f := range fieldsOf(t) {
			keys[f.key] = schemaOf(t.FieldByIndex(f.index).Type, f.tag)
		}
		return section(keys)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), constraint)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem(), constraint)}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		low, high := bounds(constraint.Get("range"), strconv.Atoi)
		return map[string]any{"type": "integer", "minimum": low, "maximum": high}
	case reflect.String:
		return described(map[string]any{"type": "string"}, forms[constraint.Get("form")].allowed)
	default:
		panic("config: no schema for " + t.String())
	}
}

// described adds a description of what is allowed where a schema cannot express it.
func described(schema map[string]any, allowed string) map[string]any {
	if allowed == "" {
		return schema
	}
	if ref := schema["$ref"]; ref != nil { // keys beside a reference are ignored
		schema = map[string]any{"allOf": []any{map[string]any{"$ref": ref}}}
	}
	schema["description"] = "allowed: " + allowed
	return schema
}

// section returns the schema of a mapping with these keys and no others; the mapping may be empty.
func section(keys map[string]any) map[string]any {
	return map[string]any{"type": []any{"object", "null"}, "additionalProperties": false, "properties": keys}
}

// scalars returns the choices as YAML reads them: true is a boolean unless it is quoted.
func scalars(choices []string) []any {
	var out []any
	for _, c := range choices {
		out = append(out, c)
		if b, err := strconv.ParseBool(c); err == nil {
			out = append(out, b)
		}
	}
	return out
}
