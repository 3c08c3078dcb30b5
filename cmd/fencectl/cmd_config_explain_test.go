package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/docs"
)

// TestConfigExplainHasEveryKey: every key has a page, and each page fits a terminal and contains no Markdown.
func TestConfigExplainHasEveryKey(t *testing.T) {
	pages := keyPages(docs.Configuration + docs.Tuning)
	for _, key := range config.Keys() {
		has := func(p keyPage) bool { return p.Key == key }
		below := func(p keyPage) bool { return strings.HasPrefix(p.Key, key+".") || strings.HasPrefix(p.Key, key+"[].") }
		if !slices.ContainsFunc(pages, has) && !slices.ContainsFunc(pages, below) {
			t.Errorf("%s is explained nowhere", key)
		}
	}
	code, list, diag := runIn(t, "", nil, "config", "explain")
	if code != exitOK {
		t.Fatalf("exit %d, %s", code, diag)
	}
	for _, p := range pages {
		code, out, diag := runIn(t, "", nil, "config", "explain", p.Key)
		if code != exitOK || !strings.HasPrefix(out, p.Key+"\n  default  ") || p.Meaning == "" || p.Section == "" {
			t.Errorf("%s: exit %d, %s, printed:\n%s", p.Key, code, diag, out)
		}
		if strings.Contains(out, "](") || strings.Contains(out, "`") || strings.Contains(out, "**") {
			t.Errorf("%s has marks of Markdown:\n%s", p.Key, out)
		}
		wantColumns(t, out)
		if !strings.Contains(list, "\n  "+p.Key+" ") {
			t.Errorf("the list lacks %s", p.Key)
		}
	}
	wantColumns(t, list)
}

// wantColumns: a word that is longer than a line, such as a path, cannot be broken.
func wantColumns(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if len([]rune(strings.TrimRight(line, "\n"))) > pageWidth && strings.Contains(strings.TrimSpace(line), " ") {
			t.Errorf("more than %d columns: %s", pageWidth, line)
		}
	}
}

func TestConfigExplainFindsAKey(t *testing.T) {
	for given, want := range map[string]string{
		"watchdog.timeout": "watchdog.timeout\n", "systemNetworks[mgmt].port": "systemNetworks[].port\n", "systemNetworks.port": "systemNetworks[].port\n",
		"systemNetworks[0].port": "systemNetworks[].port\n",
	} {
		if code, out, diag := runIn(t, "", nil, "config", "explain", given); code != exitOK || !strings.HasPrefix(out, want) {
			t.Errorf("%s: exit %d, %s, printed %q", given, code, diag, out)
		}
	}
	code, out, _ := runIn(t, "", nil, "config", "explain", "lun")
	if code != exitOK || !strings.Contains(out, "  lun.devices ") || strings.Contains(out, "watchdog.") {
		t.Errorf("lun: exit %d, printed:\n%s", code, out)
	}
	for old, want := range map[string]string{
		"gossip.lifeguard":              "experimental.lifeguard replaces it",
		"systemNetworks[mgmt].cidr":     "systemNetworks[].at replaces it",
		"quorum.tieBreakers":            "quorum.tieBreak replaces it",
		"gossip.overrides.probeTimeout": "experimental.probeTimeout replaces it",
	} {
		if code, _, diag := runIn(t, "", nil, "config", "explain", old); code != exitUsage || !strings.Contains(diag, want) {
			t.Errorf("%s: exit code %d, %s", old, code, diag)
		}
	}
	if code, _, diag := runIn(t, "", nil, "config", "explain", "lun.nothing"); code != exitUsage || !strings.Contains(diag, `"lun.nothing" is not a key`) {
		t.Errorf("exit %d, %s", code, diag)
	}
	var page keyPage
	code, out, _ = runIn(t, "", nil, "config", "explain", "cluster", "-o", "json")
	if err := json.Unmarshal([]byte(out), &page); err != nil || code != exitOK || page.Key != "cluster" || page.Nodes != "the same on all nodes of the group" {
		t.Errorf("exit %d, %v: %s", code, err, out)
	}
}

func TestKeyPagesArePlain(t *testing.T) {
	const markdown = "## A `b`\n\n| key | default | allowed | meaning |\n|---|---|---|---|\n" +
		"| `cluster` | `x` | **any** | See [how](other.md#x), [other.md](other.md), [here](#y), [adr/0001](adr/0001-a.md). |\n| `no.key` | a | b | c |\n"
	want := []keyPage{{"cluster", "A b", "x", "any", "the same on all nodes of the group", "See how (docs/other.md), other.md, here, adr/0001."}}
	if got := keyPages(markdown); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := wrapWords("one two three", 7); !slices.Equal(got, []string{"one two", "three"}) {
		t.Errorf("wrapped %q", got)
	}
}
