package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// A tie-breaker is one entry of one list: files may have it, the schema offers it, and what follows from it comes
// from the entry.
func TestTieBreakersAreOneList(t *testing.T) {
	config, _ := Schemas()
	schema, _ := json.Marshal(config)
	terms := map[netgossip.Breakers]Breaker{netgossip.BreaksByNothing: ""}
	for _, b := range breakers() {
		c := Default()
		if c.Quorum.TieBreakers = []Breaker{b.value}; len(c.TieBreakers()) != 0 || c.Terms() != netgossip.BreaksByNothing {
			t.Errorf("%s: answers without a device and an API server", b.value)
		}
		c, _ = mustParse(t, with("lun: {devices: [/dev/sda]}", "kubernetes: {kubeconfig: /k}", fmt.Sprintf("quorum: {tieBreakers: [%s]}", b.value)), noEnv)
		if !c.BreaksTiesBy(b.value) || !slices.Contains(Breakers(), b.value) || !slices.Contains(Breaker("").values(), string(b.value)) {
			t.Errorf("%s: is no value", b.value)
		}
		if got := c.Terms(); got == 0 || got != b.terms(c) || terms[got] != "" {
			t.Errorf("%s: states %v, as %q does", b.value, got, terms[got])
		}
		terms[c.Terms()] = b.value
		if got := c.TieBreakText(); !strings.HasPrefix(got, string(b.value)) {
			t.Errorf("%s: told as %q", b.value, got)
		}
	}
	if want := fmt.Sprintf(`"enum":["%s"]`, strings.Join(Breaker("").values(), `","`)); !strings.Contains(string(schema), want) {
		t.Errorf("the schema has no %s", want)
	}
}
