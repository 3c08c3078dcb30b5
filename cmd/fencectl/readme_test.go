package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmeShowsAConfigurationThatIsAccepted: the file in the README must not stop a new user.
func TestReadmeShowsAConfigurationThatIsAccepted(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, file, ok := strings.Cut(string(text), "```yaml\n")
	file, _, _ = strings.Cut(file, "```\n")
	if lines := strings.Count(file, "\n"); !ok || lines > 12 {
		t.Fatalf("the README has no configuration of 12 lines at most, but of %d", lines)
	}
	for _, lun := range []string{"lun:\n  devices: [/dev/mapper/fence]\n", ""} {
		name := filepath.Join(t.TempDir(), "agent.yaml")
		without := strings.Replace(file, "lun:\n  devices: [/dev/mapper/fence]\n", lun, 1)
		if err := os.WriteFile(name, []byte(without), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, diag := runIn(t, "", nil, "config", "check", name, "--node-name", "node-1"); code != exitOK {
			t.Errorf("%s\nis refused:\n%s", without, diag)
		}
	}
}
