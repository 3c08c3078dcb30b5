package distributedapp

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

type document struct {
	Kind string
	Data map[string]string
	Spec struct {
		Versions []struct {
			Subresources map[string]any
			Schema       struct {
				OpenAPIV3Schema node `yaml:"openAPIV3Schema"`
			}
		}
	}
}

type node struct {
	Properties map[string]*node
}

func manifest(t *testing.T) (out []document) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/distributedapp/operator.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var d document
		if err := dec.Decode(&d); errors.Is(err, io.EOF) {
			return out
		} else if err != nil && d.Kind == "" {
			t.Fatal(err)
		}
		out = append(out, d)
	}
}

// The API server would drop a field that is missing in the schema.
func TestSchemaHasEachField(t *testing.T) {
	for _, d := range manifest(t) {
		if d.Kind != "CustomResourceDefinition" {
			continue
		}
		v := d.Spec.Versions[0]
		if _, ok := v.Subresources["status"]; !ok {
			t.Error("the status is not a subresource: each status would be a new generation")
		}
		for part, typ := range map[string]reflect.Type{"spec": reflect.TypeFor[Spec](), "status": reflect.TypeFor[Status]()} {
			schema := v.Schema.OpenAPIV3Schema.Properties[part].Properties
			for i := range typ.NumField() {
				name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
				if schema[name] == nil {
					t.Errorf("the schema lacks %s.%s", part, name)
				}
			}
			if len(schema) != typ.NumField() {
				t.Errorf("the schema has %d fields in %s, want %d", len(schema), part, typ.NumField())
			}
		}
		return
	}
	t.Fatal("there is no CustomResourceDefinition")
}

// The ConfigMap that is shipped can be used.
func TestShippedConfiguration(t *testing.T) {
	for _, d := range manifest(t) {
		if d.Kind == "ConfigMap" {
			m := newAPI(t, 1).conf
			m.Data = d.Data
			if _, err := readConfig(m); err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Fatal("there is no ConfigMap")
}
