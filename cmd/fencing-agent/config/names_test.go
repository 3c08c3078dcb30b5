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
	file := with("lun: {devices: [/dev/mapper/fence]}", "nodeName:-", "systemNetworks: [{name: mgmt, at: eth0}]", `nodeDevices:
  - {node: n1, watchdog: "identity:hpwdt"}
  - {node: n2, lun: ["wwn:0x6001405aaaaaaaaaaaaaaaaaaaaaaaaa"]}
  - {node: n3, lun: ["wwn:uuid.6ba7b810-9dad-11d1-80b4-00c04fd430c8"]}`)
	for _, c := range []struct{ node, watchdog, lun string }{
		{"n1", "identity:hpwdt", "/dev/mapper/fence"},
		{"n2", "/dev/watchdog", "wwn:0x6001405aaaaaaaaaaaaaaaaaaaaaaaaa"},
		{"n3", "/dev/watchdog", "wwn:uuid.6ba7b810-9dad-11d1-80b4-00c04fd430c8"},
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

func TestRefusesImpossibleNamesAndDevices(t *testing.T) {
	expectProblems(t, []problemCase{
		{"http on no address", with("http: {address: '$NODE_IP:9110'}"), `http.address: names $NODE_IP, which is not an address of this node (""), found $NODE_IP:9110`},
		{"node's devices without node", with("nodeDevices: [{watchdog: /dev/watchdog1}]"), "nodeDevices[0].node: is empty; allowed: the name of the node"},
		{"node's devices without devices", with("nodeDevices: [{node: n1}]"), "nodeDevices[0]: says nothing; allowed: watchdog, lun, or both"},
		{"node's devices twice", with("nodeDevices: [{node: n1, watchdog: /dev/w1}, {node: n1, watchdog: /dev/w2}]"), "nodeDevices[1].node: is listed twice, found n1"},
		{"node with a LUN of its own", with("nodeDevices: [{node: n1, lun: [/dev/mapper/f]}]"), "nodeDevices[0].lun: does not have as many devices as lun.devices, found 1 devices; allowed: 0, in the order"},
		{"node with fewer devices", with("lun: {devices: [/dev/a, /dev/b, /dev/c]}\nnodeDevices: [{node: n1, lun: [/dev/mapper/f]}]"), "nodeDevices[0].lun: does not have as many devices as lun.devices, found 1 devices; allowed: 3"},
		{"short name of a LUN", with("lun: {devices: ['wwn:0x60']}"), "lun.devices[0]: is not usable, found wwn:0x60; allowed: an absolute path, or wwn: with the 16 or 32"},
		{"half an NVMe name", with("lun: {devices: ['wwn:uuid.6ba7b810-9dad-11d1-80b4']}"), "lun.devices[0]: is not usable, found wwn:uuid.6ba7b810-9dad-11d1-80b4; allowed: "},
		{"one namespace twice", with("lun: {devices: ['wwn:eui.0025385B71B00001', 'wwn:eui.0025385b71b00001', /dev/c]}"), "lun.devices[1]: is listed twice"},
		{"one LUN twice", with("lun: {devices: ['wwn:0x500a0981DEADBEEF', 'wwn:500a0981deadbeef', /dev/c]}"), "lun.devices[1]: is listed twice"},
		{"unknown names", with("kubernetes: {names: own}"), "kubernetes.names: is not a choice, found own; allowed: fencing-agent, deckhouse"},
	})
}

// A file without networks has one network, on the address that the pod or the list gives the node.
func TestOneNetworkOnTheNodesAddress(t *testing.T) {
	kube := with("systemNetworks:-", "members: {source: kubernetes}")
	static := with("systemNetworks:-", "members: {static: [{name: n1, addresses: {node: 10.0.0.1}}, {name: n2, addresses: {node: 10.0.0.2}}]}")
	for name, c := range map[string]struct {
		file string
		env  func(string) string
		want string
	}{
		"InternalIP":           {kube, environment("KUBERNETES_SERVICE_HOST=10.96.0.1", "NODE_IP=fd00::1"), "fd00::1"},
		"list, of n1":          {static, environment("NODE_IP=10.0.0.1"), "10.0.0.1"},
		"list, nobody says it": {static, noEnv, "10.0.0.1"},
		"list, of another":     {static, environment("NODE_IP=10.0.0.7"), ""},
		"nobody says it":       {kube, environment("KUBERNETES_SERVICE_HOST=10.96.0.1"), ""},
		"no address":           {kube, environment("KUBERNETES_SERVICE_HOST=10.96.0.1", "NODE_IP=0.0.0.0"), ""},
	} {
		got, _, err := Parse("f", []byte(c.file), c.env)
		if c.want == "" {
			if err == nil {
				t.Errorf("%s: is taken", name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n := got.SystemNetworks; len(n) != 1 || n[0].Name != "node" || n[0].At.Address.String() != c.want || n[0].Port != DefaultPort {
			t.Errorf("%s: %+v", name, n)
		}
	}
}

func TestLifeguardOff(t *testing.T) {
	c, _ := mustParse(t, with("timing: adr", "experimental: {lifeguard: false}"), noEnv)
	if p := c.ParamsFor(50); p.AwarenessMaxMultiplier != 1 || p.SuspicionMaxTimeoutMult != 1 || p.SuspicionMult < 3 {
		t.Errorf("%+v", p)
	}
	expectProblems(t, []problemCase{
		{"Lifeguard off and on", with("experimental: {lifeguard: false, awarenessMaxMultiplier: 4}"), "experimental.lifeguard: is off, but other keys have an effect only if it is on, found false; allowed: true, or no"},
		{"key of the documents", with("gossip: {adaptiveThreshold: 0.8}"), "gossip.adaptiveThreshold: is not a known key: memberlist has no threshold of this kind; experimental.evidenceMaxAge"},
		{"struct of the documents", with("LifeguardEnabled: true"), "LifeguardEnabled: is not a known key: the key is experimental.lifeguard"},
		{"no majority", with("quorum: {arbitrate: no-majority}"), "quorum.arbitrate: is not a known key: only an equal split is arbitrated"},
		{"order", with("equalSplit: {order: [api, lun]}"), "equalSplit: is not a known key: quorum.tieBreak says what decides"},
		{"one socket twice", with("api: {moreSockets: [/var/run/fencing-agent.sock]}"), "api.moreSockets[0]: is also the path of api.socket"},
	})
}
