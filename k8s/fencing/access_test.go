package fencing

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/fencing-agent/fencing-agent/k8s/nodefence"
	"github.com/fencing-agent/fencing-agent/k8s/remediation"
)

type document struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Versions []struct {
			Schema struct {
				OpenAPIV3Schema schemaNode `yaml:"openAPIV3Schema"`
			}
		}
	}
}

type schemaNode struct {
	Properties map[string]*schemaNode
	Items      *schemaNode
}

func manifest(t *testing.T) []document {
	t.Helper()
	text, err := os.ReadFile("../../deploy/controller/nodefence.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out []document
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

// The API server would drop a field that is missing in the schema: a Job would be forgotten.
func TestSchemaHasEachField(t *testing.T) {
	types := map[string][2]reflect.Type{
		"nodefences":          {reflect.TypeFor[nodefence.Spec](), reflect.TypeFor[nodefence.Status]()},
		"fencingremediations": {reflect.TypeFor[remediation.Spec](), reflect.TypeFor[remediation.Status]()},
	}
	for _, d := range manifest(t) {
		name, _, _ := strings.Cut(d.Metadata.Name, ".")
		typ, known := types[name]
		if d.Kind != "CustomResourceDefinition" || !known {
			continue
		}
		delete(types, name)
		root := d.Spec.Versions[0].Schema.OpenAPIV3Schema
		fields(t, name+".spec", typ[0], root.Properties["spec"])
		fields(t, name+".status", typ[1], root.Properties["status"])
	}
	if len(types) > 0 {
		t.Fatalf("there is no CustomResourceDefinition of %v", types)
	}
}

// A remediation's spec is a copy of a template.
func TestTemplateSchema(t *testing.T) {
	for _, d := range manifest(t) {
		if d.Kind == "CustomResourceDefinition" && strings.HasPrefix(d.Metadata.Name, "fencingremediationtemplates.") {
			spec := d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["template"].Properties["spec"]
			fields(t, "spec.template.spec", reflect.TypeFor[remediation.Spec](), spec)
			return
		}
	}
	t.Fatal("there is no CustomResourceDefinition of the templates")
}

func fields(t *testing.T, path string, typ reflect.Type, s *schemaNode) {
	t.Helper()
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		if typ.Kind() == reflect.Slice {
			if s = s.Items; s == nil {
				t.Errorf("%s has no items", path)
				return
			}
		}
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ.Name() == "Time" {
		return
	}
	known := map[string]bool{}
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		known[name] = true
		below := s.Properties[name]
		if below == nil {
			t.Errorf("the schema lacks %s.%s", path, name)
			continue
		}
		fields(t, path+"."+name, typ.Field(i).Type, below)
	}
	for name := range s.Properties {
		if !known[name] {
			t.Errorf("the schema has %s.%s, which nobody writes", path, name)
		}
	}
}

// Alerts ask for metrics that there are, and name a section of the page.
func TestAlerts(t *testing.T) {
	var texts [3]string
	for i, file := range []string{"../../deploy/controller/nodefence-monitoring.yaml", "metrics.go", "../../docs/power.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	alerts := regexp.MustCompile(`expr: (?:max(?: by \(step\) )?|min by \(device\) )\((?:increase\()?fencing_controller_([a-z_]+)`).FindAllStringSubmatch(texts[0], -1)
	sections := regexp.MustCompile(`docs/power\.md#([a-z-]+)`).FindAllStringSubmatch(texts[0], -1)
	if len(alerts) != 6 || len(sections) != 6 {
		t.Fatalf("%v %v", alerts, sections)
	}
	for i := range alerts {
		if !strings.Contains(texts[1], `Name: "`+alerts[i][1]+`"`) || !strings.Contains(texts[2], "fencing_controller_"+alerts[i][1]) {
			t.Errorf("no metric %s, or the page does not name it", alerts[i][1])
		}
		if !strings.Contains(strings.ToLower(texts[2]), "\n## "+strings.ReplaceAll(sections[i][1], "-", " ")+"\n") {
			t.Errorf("docs/power.md has no section %s", sections[i][1])
		}
	}
}
