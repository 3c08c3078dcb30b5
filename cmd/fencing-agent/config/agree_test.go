package config

import (
	"encoding/json"
	"testing"
)

// Each key of a configuration is marked: either the nodes must agree on it, or they need not. An unmarked key would not
// be checked.
func TestEachKeyHasAnAgreement(t *testing.T) {
	c := Default()
	c.SystemNetworks = []SystemNetwork{{Name: "mgmt"}}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var whole map[string]any
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	n := 0
	var visit func(path string, v any)
	visit = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, inner := range v {
				visit(path+"."+key, inner)
			}
			return
		case []any:
			for _, inner := range v {
				if _, is := inner.(map[string]any); is {
					visit(path+"[x]", inner)
					return
				}
			}
		}
		n++
		if _, known := AgreementOn(path[1:]); !known {
			t.Errorf("%s: say in agreements whether nodes may differ in it", path[1:])
		}
	}
	visit("", whole)
	if n < 40 {
		t.Errorf("only %d keys", n)
	}
	for key, want := range map[string]Agreement{
		"cluster": MustAgree, "systemNetworks[mgmt].port": MustAgree, "systemNetworks[mgmt].at": OfANode, "members.static[n1].addresses.mgmt": MustAgree,
		"experimental.probeInterval": MustAgree, "gossip.keyFile": OfANode, "watchdog.timeout": MayDiffer, "nodeDevices[n1].lun": MayDiffer,
		"members.controller.founders": MustAgree, "members.controller.address": MayDiffer,
	} {
		if got, known := AgreementOn(key); got != want || !known {
			t.Errorf("%s: %v %v", key, got, known)
		}
	}
	if _, known := AgreementOn("madeUp.key"); known {
		t.Error("a key that there is not is known")
	}
}
