package config

import (
	"slices"
	"testing"
)

func TestNamesAreDefaults(t *testing.T) {
	for _, c := range []struct {
		file, label string
		annotations []string
	}{
		{"", "node.deckhouse.io/group", []string{"update.node.deckhouse.io/disruption-approved", "update.node.deckhouse.io/approved",
			"node-manager.deckhouse.io/fencing-disable", "fencing-agent.io/disable"}},
		{"kubernetes: {names: fencing-agent}", "fencing-agent.io/group", []string{"fencing-agent.io/disable"}},
		{"kubernetes: {names: fencing-agent, groupLabel: a/b}", "a/b", []string{"fencing-agent.io/disable"}},
		{"kubernetes: {names: fencing-agent, disableAnnotations: []}", "fencing-agent.io/group", nil},
	} {
		got, _ := mustParse(t, with(c.file), noEnv)
		if k := got.Kubernetes; k.GroupLabel != c.label || !slices.Equal(k.DisableAnnotations, c.annotations) {
			t.Errorf("%s: %s, %q", c.file, k.GroupLabel, k.DisableAnnotations)
		}
	}
}

func TestNodesHaveDevicesOfTheirOwn(t *testing.T) {
	file := with("lun: {devices: [/dev/mapper/fence]}", "nodeName:-", "systemNetworks: [{name: mgmt, interface: eth0}]", `nodeDevices:
  - {node: n1, watchdog: "identity:hpwdt"}
  - {node: n2, lun: ["wwn:0x6001405aaaaaaaaaaaaaaaaaaaaaaaaa"]}`)
	for _, c := range []struct{ node, watchdog, lun string }{
		{"n1", "identity:hpwdt", "/dev/mapper/fence"},
		{"n2", "/dev/watchdog", "wwn:0x6001405aaaaaaaaaaaaaaaaaaaaaaaaa"},
		{"n3", "/dev/watchdog", "/dev/mapper/fence"},
	} {
		got, _, err := Parse("f", []byte(file), environment("NODE_NAME="+c.node))
		if err != nil {
			t.Fatal(err)
		}
		if got.Watchdog.Device != c.watchdog || !slices.Equal(got.LUN.Devices, []string{c.lun}) {
			t.Errorf("%s: %s, %q", c.node, got.Watchdog.Device, got.LUN.Devices)
		}
	}
}

func TestListenerOnTheNodesAddress(t *testing.T) {
	file := with("http: {address: '$NODE_IP:9110'}")
	for ip, want := range map[string]string{"10.0.0.1": "10.0.0.1:9110", "fd00::1": "[fd00::1]:9110"} {
		c, _, err := Parse("f", []byte(file), environment("NODE_IP="+ip))
		if err != nil || c.HTTP.Address != want {
			t.Errorf("%s: %v, %v", ip, c, err)
		}
	}
	for _, ip := range []string{"", "here", "0.0.0.0"} {
		if _, _, err := Parse("f", []byte(file), environment("NODE_IP="+ip)); err == nil {
			t.Errorf("%q: listens", ip)
		}
	}
	if _, err := Review("f", []byte(file), noEnv); err != nil {
		t.Errorf("cannot be checked elsewhere: %v", err)
	}
}
