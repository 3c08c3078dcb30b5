package config

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// YAML prints the effective configuration, defaults filled in. Reading it again gives
// the same configuration.
func (c *Config) YAML() ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(c); err != nil {
		return nil, fmt.Errorf("print configuration: %w", err)
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("print configuration: %w", err)
	}
	return b.Bytes(), nil
}

// MarshalJSON prints the same keys and values as YAML, in the same order.
func (c *Config) MarshalJSON() ([]byte, error) {
	var n yaml.Node
	if err := n.Encode(c); err != nil {
		return nil, fmt.Errorf("print configuration: %w", err)
	}
	var b bytes.Buffer
	if err := writeJSON(&b, &n); err != nil {
		return nil, fmt.Errorf("print configuration: %w", err)
	}
	return b.Bytes(), nil
}

// writeJSON prints what the encoder made of a Config: mappings with string keys,
// lists, strings, numbers and booleans.
func writeJSON(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode:
		b.WriteByte('{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSONScalar(b, n.Content[i].Value); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := writeJSON(b, n.Content[i+1]); err != nil {
				return err
			}
		}
		b.WriteByte('}')
		return nil
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, item); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	default:
		var v any
		if err := n.Decode(&v); err != nil {
			return err
		}
		return writeJSONScalar(b, v)
	}
}

func writeJSONScalar(b *bytes.Buffer, v any) error {
	text, err := json.Marshal(v)
	b.Write(text)
	return err
}
