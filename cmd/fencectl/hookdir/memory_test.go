package hookdir

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What was told is there after a restart, and what was withdrawn is not.
func TestMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "told.json")
	m, err := Remember(path)
	if err != nil || len(m.Deaths()) != 0 {
		t.Fatalf("%v, %v", m.Deaths(), err)
	}
	a, b := Death{Fenced, "n1", "024bc581b3a34be3", "time"}, Death{Fenced, "n2", "124bc581b3a34be3", "sentence"}
	for _, d := range []Death{a, b, b} {
		if err := m.Note(d); err != nil {
			t.Fatal(err)
		}
	}
	if m, err = Remember(path); err != nil || !slices.Equal(m.Deaths(), []Death{a, b}) {
		t.Errorf("%v, %v", m.Deaths(), err)
	}
	gone := a
	gone.Event = Withdrawn
	if err := m.Note(gone); err != nil {
		t.Fatal(err)
	}
	if m, err = Remember(path); err != nil || !slices.Equal(m.Deaths(), []Death{b}) {
		t.Errorf("%v, %v", m.Deaths(), err)
	}
}

// A damaged file is told, and is replaced by the next death.
func TestMemoryThatIsDamaged(t *testing.T) {
	for name, text := range map[string]string{"garbage": "{", "another version": `{"version":2}`, "empty": "", "large": string(make([]byte, maxMemory+1))} {
		path := filepath.Join(t.TempDir(), "told.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := Remember(path)
		if err == nil || len(m.Deaths()) != 0 {
			t.Errorf("%s: %v, %v", name, m.Deaths(), err)
		}
		d := Death{Fenced, "n1", "024bc581b3a34be3", "time"}
		if err := m.Note(d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if m, err = Remember(path); err != nil || !slices.Equal(m.Deaths(), []Death{d}) {
			t.Errorf("%s, then: %v, %v", name, m.Deaths(), err)
		}
	}
}
