package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// YAML prints the effective configuration, defaults filled in. Reading it again gives
// the same configuration.
func (c *Config) YAML() ([]byte, error) {
	return indented(c)
}

func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(v), e.Close()); err != nil {
		return nil, fmt.Errorf("print configuration: %w", err)
	}
	return b.Bytes(), nil
}

// MarshalJSON prints the same keys and values as YAML.
func (c *Config) MarshalJSON() ([]byte, error) {
	var n yaml.Node
	var v any
	if err := n.Encode(c); err != nil {
		return nil, fmt.Errorf("print configuration: %w", err)
	}
	if err := n.Decode(&v); err != nil {
		return nil, fmt.Errorf("print configuration: %w", err)
	}
	return json.Marshal(v)
}
