package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fencing-agent/fencing-agent/netgossip"
)

// Each value of quorum.tieBreak is known to the file and the schema, each tie-breaker has one value that selects it
// alone, and its properties come from its entry. Values that decide differently never give the same terms.
func TestTieBreaksAreOneTable(t *testing.T) {
	config, _ := schemas()
	schema, _ := json.Marshal(config)
	if want := fmt.Sprintf(`"enum":["%s"]`, strings.Join(TieBreak("").values(), `","`)); !strings.Contains(string(schema), want) {
		t.Errorf("the schema has no %s", want)
	}
	decided := map[Breaker]bool{}
	terms := map[netgossip.Breakers]TieBreak{}
	for _, value := range TieBreak("").values() {
		c := Default()
		if c.Quorum.TieBreak = TieBreak(value); len(c.TieBreakers()) != 0 || c.Terms() != netgossip.BreaksByNothing {
			t.Errorf("%s: answers without a device and an API server", value)
		}
		device := "lun: {devices: [/dev/sda]}"
		if value == "lease" {
			device = ""
		}
		c, _ = mustParse(t, with(device, "kubernetes: {kubeconfig: /k}", "quorum: {tieBreak: "+value+"}"), noEnv)
		b, ok := c.decides()
		if ok != (value != "none") {
			t.Errorf("%s: decided by %v", value, b.value)
		}
		if ok && len(c.TieBreakers()) == 1 {
			decided[b.value] = true
		}
		if got := c.Terms(); got == 0 || ok && got != b.terms(c) {
			t.Errorf("%s: states %v", value, got)
		}
		if other, twice := terms[c.Terms()]; twice && other+TieBreak(value) != TieBreakAuto+TieBreakLUN { // the priority does not change what decides
			t.Errorf("%s: states what %s does", value, other)
		}
		terms[c.Terms()] = TieBreak(value)
		if got := c.TieBreakText(); ok && !strings.HasPrefix(got, string(b.value)) {
			t.Errorf("%s: told as %q", value, got)
		}
	}
	for _, b := range breakers() {
		if !decided[b.value] || !slices.Contains(Breakers(), b.value) {
			t.Errorf("%s: decides alone by no value", b.value)
		}
	}
}
