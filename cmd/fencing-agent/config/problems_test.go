package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// refused parses a configuration that must be refused.
func refused(t *testing.T, text string) []Problem {
	t.Helper()
	_, _, err := parse("f", []byte(text), noEnv, hostname)
	invalid := new(Invalid)
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v, want an *Invalid for\n%s", err, text)
	}
	return invalid.Problems
}

func TestTenMistakes(t *testing.T) {
	want, err := os.ReadFile("testdata/mistakes.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = Load("testdata/mistakes.yaml", environment("NODE_GROUP=worker"))
	invalid := new(Invalid)
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v, want an *Invalid", err)
	}
	if len(invalid.Problems) != 10 {
		t.Errorf("%d problems, want 10", len(invalid.Problems))
	}
	if got := invalid.Error() + "\n"; got != string(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// members writes a static list of n members on the network mgmt.
func members(n int) string {
	var b strings.Builder
	b.WriteString("members:\n  static:\n")
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "    - {name: n%d, addresses: {mgmt: 10.0.%d.%d}}\n", i, (i-1)/250, (i-1)%250+1)
	}
	return b.String()
}

// network returns systemNetworks with one entry in flow style, like the mgmt of base.
func network(keys string) string { return "systemNetworks: [{" + keys + "}]" }

// mgmt is the network of base, as an argument of network.
const mgmt = "name: mgmt, at: 10.0.0.1"

type problemCase struct {
	name, file string
	want       string // "PATH: TEXT", one a line; TEXT may be the start of the problem's text
}

// expectProblems checks that each file has the problems it should have and no others.
func expectProblems(t *testing.T, tests []problemCase) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			problems := refused(t, tt.file)
			want := strings.Split(tt.want, "\n")
			if len(problems) != len(want) {
				t.Fatalf("got %d problems, want %d:\n%s", len(problems), len(want), strings.Join(Lines("f", problems), "\n"))
			}
			for i, p := range problems {
				if !strings.HasPrefix(p.String(), want[i]) {
					t.Errorf("problem %d:\n got %s\nwant %s", i, p, want[i])
				}
				checkLine(t, tt.file, p)
			}
		})
	}
}

func TestRefusesFilesOfAnotherForm(t *testing.T) {
	expectProblems(t, []problemCase{
		{"not YAML", "a: b: c\n", "is not YAML: mapping values are not allowed"},
		{"tab", "lun:\n\tmode: or\n", "is not YAML: found character that cannot start any token"},
		{"two documents", with() + "---\nnodeName: n1\n", "has a second document"},
		{"second document broken", with() + "---\na: b: c\n", "is not YAML"},
		{"a list", "- a\n", "is not a mapping, found a list"},
		{"a word", "fence\n", "is not a mapping, found fence"},
		{"anchor", with("cluster: &c prod"), "cluster: anchors and aliases are not supported"},
		{"alias", with("cluster: *c"), "is not YAML: unknown anchor"},
		{"merge key", with("lun: {<<: {mode: or}}"), "lun: has a key that is not a plain word, found <<"},
		{"key is a list", with("http: {[a]: b}"), "http: has a key that is not a plain word, found a list"},
		{"duplicate key", with("http:\n  address: \"\"\n  address: \"\""), "http.address: is given twice, first in line"},
		{"duplicate section", with() + "nodeName: n2\n", "nodeName: is given twice, first in line 1; allowed: one of them"},
	})
}

func TestRefusesUnknownKeys(t *testing.T) {
	expectProblems(t, []problemCase{
		{"unknown key", with("colour: red"), "colour: is not a known key; allowed: cluster, nodeName,"},
		{"misspelt key", with("reachabilty: all"), "reachabilty: is not a known key, did you mean reachability?"},
		{"swapped letters", with("lun: {mdoe: or}"), "lun.mdoe: is not a known key, did you mean mode?"},
		{"other section", with("ioTimeout: 5s"), "ioTimeout: is not a known key; allowed: cluster, nodeName, nodeGroup, members, kubernetes, systemNetworks, reachability, gossip, quorum, onQuorumLoss, restartGrace, timing, lun, watchdog, nodeDevices, api, http, experimental (lun.ioTimeout is a known key)"},
		{"odd key", with("\"a\\nb\": c"), `["a\nb"]: is not a known key`},
		{"key in a list", with(network(mgmt + ", prot: 1")), "systemNetworks[0].prot: is not a known key, did you mean port?"},
		{"misspelt needed key", with(network("name: mgmt, att: 10.0.0.1")), "systemNetworks[0].att: is not a known key, did you mean at?"},
	})
}

func TestRefusesWrongTypes(t *testing.T) {
	expectProblems(t, []problemCase{
		{"null scalar", with("http:\n  address:"), "http.address: has no value; allowed: a value; leave out the key"},
		{"null list", with("lun:\n  devices:"), "lun.devices: has no value"},
		{"section is a list", with("lun: [a]"), "lun: is not a mapping, found a list; allowed: a mapping with keys of devices, mode,"},
		{"list is a word", with("lun: {devices: /dev/sda}"), "lun.devices: is not a list, found /dev/sda; allowed: a list, [] for an empty one"},
		{"map is a list", with("members: {static: [{name: n1, addresses: [10.0.0.1]}]}"), "members.static[0].addresses: is not a mapping, found a list; allowed: a mapping"},
		{"number for a string", with("cluster: 7"), "cluster: is not a string, found 7; allowed: a string; put it in quotes"},
		{"list for a string", with("cluster: [x]"), "cluster: is not a string, found a list; allowed: a string"},
		{"word for a bool", with("experimental: {lifeguard: yes}"), "experimental.lifeguard: is not a boolean, found yes; allowed: true or false"},
		{"word for a number", with(network(mgmt + ", port: http")), "systemNetworks[0].port: is not a whole number, found http; allowed: 1..65535"},
		{"fraction", with(network(mgmt + ", port: 1.5")), "systemNetworks[0].port: is not a whole number, found 1.5"},
		{"number too large for an int", with(network(mgmt + ", port: 99999999999999999999")), "systemNetworks[0].port: is not a whole number"},
		{"duration without unit", with("watchdog: {timeout: 30}"), "watchdog.timeout: is not a duration, found 30; allowed: 2s..1h, with a unit (ms, s, m or h)"},
		{"duration is a list", with("watchdog: {timeout: [30s]}"), "watchdog.timeout: is not a duration, found a list"},
		{"choice", with("onQuorumLoss: reboot"), "onQuorumLoss: is not a choice, found reboot; allowed: fence, exclude, wait"},
		{"misspelt choice", with("onQuorumLoss: fenced"), "onQuorumLoss: is not a choice, found fenced; allowed: fence, exclude, wait (did you mean fence?)"},
		{"choice is a mapping", with("onQuorumLoss: {a: b}"), "onQuorumLoss: is not a choice, found a mapping"},
		{"null list entry", with("kubernetes: {disableAnnotations: [~]}"), "kubernetes.disableAnnotations[0]: has no value"},
		{"no cascade from a network name", with(network("name: 7, at: 10.0.0.1")), "systemNetworks[0].name: is not a string, found 7"},
		{"no cascade from a member name", with("members: {static: [{name: 7, addresses: {mgmt: 10.0.0.1}}]}", network("name: mgmt, at: e")), "members.static[0].name: is not a string, found 7"},
	})
}

func TestRefusesUnusableValues(t *testing.T) {
	expectProblems(t, []problemCase{
		{"port 0", with(network(mgmt + ", port: 0")), "systemNetworks[0].port: is out of range, found 0; allowed: 1..65535"},
		{"port 65536", with(network(mgmt + ", port: 65536")), "systemNetworks[0].port: is out of range, found 65536"},
		{"negative duration", with("lun: {ioTimeout: -2s}"), "lun.ioTimeout: is out of range, found -2s; allowed: 200ms..30s"},
		{"heartbeat too slow", with("lun: {heartbeatInterval: 11s}"), "lun.heartbeatInterval: is out of range, found 11s; allowed: 100ms..10s"},
		{"timeout too short", with("watchdog: {timeout: 1s}"), "watchdog.timeout: is out of range, found 1s; allowed: 2s..1h"},
		{"node name", with("nodeName: N_1"), "nodeName: is not usable, found N_1; allowed: the node's name in Kubernetes"},
		{"group", with("nodeGroup: a/b"), "nodeGroup: is not usable, found a/b; allowed: 1 to 63 letters"},
		{"cluster too long", with("cluster: " + strings.Repeat("x", 64)), "cluster: is not usable"},
		{"network name", with(network("name: Mgmt, at: 10.0.0.1")), "systemNetworks[0].name: is not usable, found Mgmt; allowed: 1 to 63 lower-case letters"},
		{"interface name", with(network("name: mgmt, at: a-very-long-name")), "systemNetworks[0].at: is not possible"},
		{"cidr with host bits", with(network("name: mgmt, at: 10.0.0.1/24")), "systemNetworks[0].at: is not possible, found 10.0.0.1/24"},
		{"address is a number", with(network("name: mgmt, at: 10")), "systemNetworks[0].at: is not possible, found 10; allowed: the name of an interface"},
		{"address unspecified", with(network("name: mgmt, at: 0.0.0.0")), "systemNetworks[0].at: is not possible, found 0.0.0.0"},
		{"address with zone", with(network("name: mgmt, at: 'fe80::1%eth0'")), "systemNetworks[0].at: is not possible"},
		{"relative device", with("lun: {devices: [sda]}"), "lun.devices[0]: is not usable, found sda; allowed: an absolute path"},
		{"relative watchdog", with("watchdog: {device: watchdog}"), "watchdog.device: is not usable, found watchdog; allowed: an absolute path"},
		{"relative disable file", with("watchdog: {disableFile: off}"), "watchdog.disableFile: is not usable, found off"},
		{"relative cache", with(strings.Replace(base[3], "members:", "members:\n  cacheFile: x", 1)), "members.cacheFile: is not usable, found x"},
		{"relative kubeconfig", with("kubernetes: {kubeconfig: admin.conf}"), "kubernetes.kubeconfig: is not usable, found admin.conf; allowed: an absolute path, or empty"},
		{"relative key file", with("gossip: {keyFile: keys}"), "gossip.keyFile: is not usable, found keys; allowed: an absolute path, or empty"},
		{"socket path too long", with("api: {socket: /" + strings.Repeat("x", 107) + "}"), "api.socket: is not usable"},
		{"relative socket", with("api: {socket: run/x.sock}"), "api.socket: is not usable, found run/x.sock; allowed: an absolute path of at most 107 bytes"},
		{"socket group", with(`api: {socketGroup: "a:b"}`), "api.socketGroup: is not usable, found a:b"},
		{"http without port", with("http: {address: 127.0.0.1}"), "http.address: is not usable, found 127.0.0.1; allowed: HOST:PORT with a port of 1..65535, $NODE_IP:PORT, or empty"},
		{"http port 0", with("http: {address: '127.0.0.1:0'}"), "http.address: is not usable, found 127.0.0.1:0"},
		{"http port name", with("http: {address: '127.0.0.1:http'}"), "http.address: is not usable"},
		{"label key", with("kubernetes: {groupLabel: a b}"), "kubernetes.groupLabel: is not usable, found a b"},
		{"annotation", with("kubernetes: {disableAnnotations: [a/b/c]}"), "kubernetes.disableAnnotations[0]: is not usable, found a/b/c"},
		{"control characters are shown quoted", with("cluster: \"a\\eb\""), `cluster: is not usable, found "a\x1bb"; allowed: 1 to 63`},
		{"long values are cut", with("onQuorumLoss: " + strings.Repeat("x", 1000)), "onQuorumLoss: is not a choice, found " + strings.Repeat("x", 80) + "...; allowed"},
	})
}

func TestRefusesMissingKeys(t *testing.T) {
	expectProblems(t, []problemCase{
		{"nothing at all", "", "nodeGroup: is empty; allowed: the node's group, here or in $NODE_GROUP\nsystemNetworks: is empty, and $NODE_IP is not an address that could replace them; allowed: at least one network, or $NODE_IP\nmembers.static: is empty; allowed: every node of the group, this one included"},
		{"network without name", with(network("at: 10.0.0.1")), "systemNetworks[0].name: is missing; allowed: 1 to 63 lower-case letters\nmembers.static[0].addresses.mgmt: is not a system network\nmembers.static[1].addresses.mgmt: is not a system network\nmembers.static[2].addresses.mgmt: is not a system network"},
		{"network nowhere", with(network("name: mgmt")), "systemNetworks[0].at: is missing; allowed: where the network is on this node"},
		{"member without name", with("members: {static: [{addresses: {mgmt: 10.0.0.1}}, {name: n1, addresses: {mgmt: 10.0.0.2}}]}", network("name: mgmt, at: eth0")), "members.static[0].name: is missing"},
	})
}

func TestRefusesContradictoryNetworks(t *testing.T) {
	expectProblems(t, []problemCase{
		{"network names", with("systemNetworks: [{name: mgmt, at: 10.0.0.1}, {name: mgmt, at: eth0}]"), "systemNetworks[1].name: is already the name of systemNetworks[0], found mgmt"},
		{"one interface and port", with("systemNetworks: [{name: mgmt, at: e}, {name: b, at: e}]",
			"members: {static: [{name: n1, addresses: {mgmt: 10.0.0.1, b: 10.0.0.2}}]}"), "systemNetworks[1]: would use the socket that systemNetworks[0] uses, found interface e, port 7946"},
		{"one own address and port", with("systemNetworks: [{name: mgmt, at: e}, {name: b, at: 10.0.0.0/24}]",
			"members: {static: [{name: n1, addresses: {mgmt: 10.0.0.1, b: 10.0.0.1}}]}"), "systemNetworks[1]: would use the socket that network mgmt uses, found 10.0.0.1:7946"},
		{"metrics on a gossip socket", with("http: {address: '10.0.0.1:7946'}"), "http.address: is also the socket of systemNetworks[0], found 10.0.0.1:7946; allowed: another port"},
		{"metrics on all addresses", with("http: {address: ':7946'}"), "http.address: is also the socket of systemNetworks[0], found :7946"},
	})
}

func TestRefusesContradictoryMembers(t *testing.T) {
	expectProblems(t, []problemCase{
		{"not listed", with("nodeName: n9"), "members.static: does not list this node, found n9; allowed: every node of the group; add {name: n9, addresses: ...}, or set nodeName or $NODE_NAME to a listed name (n1, n2, n3)"},
		{"member names", with("members: {static: [{name: n1, addresses: {mgmt: 10.0.0.1}}, {name: n1, addresses: {mgmt: 10.0.0.2}}]}"), "members.static[1].name: is already the name of members.static[0], found n1; allowed: each node once"},
		{"no addresses", with("members: {static: [{name: n1}]}"), "members.static[0].addresses: lacks the system network mgmt; allowed: one address for each of mgmt"},
		{"address of no network", with("members: {static: [{name: n1, addresses: {mgmt: 10.0.0.1, data: 10.0.0.2}}]}"), "members.static[0].addresses.data: is not a system network; allowed: mgmt"},
		{"address of a misspelt network", with("members: {static: [{name: n1, addresses: {mgnt: 10.0.0.1}}]}"), "members.static[0].addresses.mgnt: is not a system network, did you mean mgmt?"},
		{"address not an IP", with("members: {static: [{name: n1, addresses: {mgmt: n1.example.org}}]}"), "members.static[0].addresses.mgmt: is not usable, found n1.example.org"},
		{"address taken", with("members: {static: [{name: n1, addresses: {mgmt: 10.0.0.1}}, {name: n2, addresses: {mgmt: 10.0.0.1}}]}"), "members.static[1].addresses.mgmt: is already the address of n1, found 10.0.0.1"},
		{"families mixed", with("members: {static: [{name: n1, addresses: {mgmt: 10.0.0.1}}, {name: n2, addresses: {mgmt: 'fd00::1'}}]}"), "members.static[1].addresses.mgmt: is of another family than the address of n1, found fd00::1"},
		{"own address literal", with(network("name: mgmt, at: 10.0.0.7")), "systemNetworks[0].at: is not the address that members.static gives n1, found 10.0.0.7; allowed: 10.0.0.1"},
		{"own address outside cidr", with(network("name: mgmt, at: 10.9.0.0/24")), "systemNetworks[0].at: does not contain the address that members.static gives n1, found 10.9.0.0/24; allowed: a network with 10.0.0.1"},
		{"too many members", with(members(1025)), "members.static: is too long, found 1025; allowed: at most 1024 members"},
		{"too many members for a LUN", with(members(256), "lun: {devices: [/dev/sda]}"), "lun.devices: cannot be used with that many members, found 256; allowed: at most 255 members with a LUN"},
	})
}

func TestRefusesImpossibleQuorums(t *testing.T) {
	expectProblems(t, []problemCase{
		{"quorum too small", with("quorum: {size: 1}"), "quorum.size: does not fit the number of members, found 1; allowed: auto, or 2..3: more than half of 3 members"},
		{"quorum half", with(members(4), "quorum: {size: 2}", "systemNetworks: [{name: mgmt, at: e}]"), "quorum.size: does not fit the number of members, found 2; allowed: auto, or 3..4"},
		{"quorum too large", with("quorum: {size: 4}"), "quorum.size: does not fit the number of members, found 4"},
		{"quorum zero", with("quorum: {size: 0}"), "quorum.size: is not possible, found 0; allowed: auto, or a whole number of nodes"},
		{"quorum a word", with("quorum: {size: half}"), "quorum.size: is not possible, found half"},
		{"tie-breaker unknown", with("quorum: {tieBreak: disk}"), "quorum.tieBreak: is not a choice, found disk; allowed: auto, none, lun, lun-then-kubernetes, kubernetes, lease"},
		{"lun without devices", with("quorum: {tieBreak: lun}"), "quorum.tieBreak: names the LUN, and lun.devices is empty, found lun; allowed: a device, or another value"},
		{"reachability a word", with("reachability: some"), "reachability: is not possible, found some; allowed: any, all, or {atLeast: NUMBER OF NETWORKS}"},
		{"reachability zero", with("reachability: {atLeast: 0}"), "reachability: is not possible, found a mapping"},
		{"reachability other key", with("reachability: {atMost: 1}"), "reachability: is not possible, found a mapping"},
		{"reachability too many", with("reachability: {atLeast: 2}"), "reachability: asks for more networks than there are, found {atLeast: 2}; allowed: any, all, or {atLeast: 1..1}"},
		{"annotation twice", with("kubernetes: {disableAnnotations: [a, a]}"), "kubernetes.disableAnnotations[1]: is listed twice, found a"},
	})
}

func TestRefusesImpossibleTimes(t *testing.T) {
	expectProblems(t, []problemCase{
		{"two devices", with("lun: {devices: [/dev/sda, /dev/sdb]}"), "lun.devices: cannot form a useful majority, found 2 devices; allowed: 0, 1 or 3 devices"},
		{"same device", with("lun: {devices: [/dev/sda, /dev/sda]}"), "lun.devices: cannot form a useful majority\nlun.devices[1]: is listed twice, found /dev/sda"},
		{"no time to arbitrate", with("lun: {ioTimeout: 1s}"), "lun.ioTimeout: leaves no time to arbitrate: preference delay 2s, stagger 1s, two heartbeats and a ballot of 2.3s need 7.3s, the budget is 7s, found 1s; allowed: at least 2 heartbeatInterval = 2s"},
		{"feeding late", with("experimental: {feedInterval: 15s}"), "experimental.feedInterval: is too long: one late feeding would reset the node, found 15s; allowed: less than half of watchdog.timeout = 30s"},
		{"half seconds", with("watchdog: {timeout: 10500ms}"), "watchdog.timeout: is not a whole number of seconds, and the kernel takes only those, found 10.5s; allowed: 2s..1h"},
		{"same device spelt differently", with("lun: {devices: [/dev/sda, /dev/b, /dev/../dev/sda]}"), "lun.devices[2]: is listed twice, found /dev/../dev/sda"},
	})
}

func TestRefusesUnsafeGossip(t *testing.T) {
	expectProblems(t, []problemCase{
		{"unknown override", with("experimental: {probeIntervall: 1s}"), "experimental.probeIntervall: is not a known key, did you mean probeInterval?"},
		{"override out of range", with("experimental: {gossipNodes: 0}"), "experimental.gossipNodes: is out of range, found 0; allowed: 1..32"},
		{"probe timeout", with("experimental: {probeInterval: 1s, probeTimeout: 1s}"), "experimental.probeTimeout: is too long: the probe would be over before a helper is asked, found 1s; allowed: at most 0.4 probeInterval = 400ms"},
		{"probe timeout of the profile", with("experimental: {probeInterval: 100ms}"), "experimental.probeTimeout: is too long: the probe would be over before a helper is asked, found 120ms; allowed: at most 0.4 probeInterval = 40ms"},
		{"suspicion", with(members(4), "systemNetworks: [{name: mgmt, at: e}]", "experimental: {suspicionMult: 2}"), "experimental.suspicionMult: is too small: a suspicion would need no second opinion, found 2; allowed: at least 3 with more than 3 members (there are 4)"},
		{"slow gossip", with(members(4), "systemNetworks: [{name: mgmt, at: e}]", "experimental: {gossipInterval: 1s}"), "experimental.gossipInterval: is too long: a suspicion ends after 1.2s, and its refutation takes 2s, found 1s; allowed: less than 600ms with these probeInterval, suspicionMult and gossipNodes"},
		{"awareness beyond the bound", with("experimental: {awarenessMaxMultiplier: 9}"), "experimental.awarenessMaxMultiplier: is out of range, found 9; allowed: 1..8"},
		{"suspicion beyond the bound", with("experimental: {suspicionMaxTimeoutMult: 7}"), "experimental.suspicionMaxTimeoutMult: is out of range, found 7; allowed: 1..6"},
		{"evidence timeout", with("experimental: {evidenceTimeout: 1s}"), "experimental.evidenceTimeout: is too long"},
		{"evidence age", with("experimental: {evidenceMaxAge: 2999ms}"), "experimental.evidenceMaxAge: is too short: two lost packets would make a healthy peer unreachable, found 2.999s; allowed: at least 3 evidenceInterval = 3s"},
		{"no cascade from a refused interval", with("experimental: {probeInterval: fast, probeTimeout: 1s, evidenceInterval: slow, evidenceMaxAge: 1s}"), "experimental.probeInterval: is not a duration\nexperimental.evidenceInterval: is not a duration"},
		{"no cascade from a refused timeout", with("watchdog: {timeout: long}", "experimental: {feedInterval: 20s}"), "watchdog.timeout: is not a duration"},
	})
}

func TestRefusesWhatIsNotSupported(t *testing.T) {
	expectProblems(t, []problemCase{
		{"source controller", with("members: {source: controller}"), "members.controller.address: is missing although members.source is controller; allowed: HOST:PORT of fencing-controller"},
		{"source controller and an API server", with("members: {source: controller, controller: {address: c:1}}", "kubernetes: {kubeconfig: /k}"), "kubernetes.kubeconfig: is given although members.source is controller, with which the agent talks to no API server, found /k; allowed: none, or source: kubernetes"},
		{"source controller and the API server's tie-breaker", with("members: {source: controller, controller: {address: c:1}}", "quorum: {tieBreak: kubernetes}"), "quorum.tieBreak: needs an API server, and with members.source: controller the agent talks to none; an answer from the controller says nothing about this half, found kubernetes; allowed: lun, none or auto"},
		{"source controller and a Lease", with("members: {source: controller, controller: {address: c:1}}", "quorum: {tieBreak: lease}"), "quorum.tieBreak: needs an API server, and with members.source: controller the agent talks to none, found lease; allowed: another value, or source: kubernetes"},
		{"source and list", with(strings.Replace(base[3], "members:", "members:\n  source: kubernetes", 1)), "members.source: needs an API server, and this is not a pod, found kubernetes; allowed: kubernetes with kubernetes.kubeconfig, or static\nmembers.static: is given although members.source is kubernetes"},
		{"source kubernetes and an epoch", with("members: {source: kubernetes, epoch: 3}", "kubernetes: {kubeconfig: /k}"), "members.epoch: is given although members.source is kubernetes, found 3; allowed: no epoch: the nodes number the lists"},
		{"source kubernetes without this node's Node", with("members: {source: kubernetes}", "kubernetes: {kubeconfig: /k, node: ignore}"), "kubernetes.node: ignores the Node although members.source is kubernetes, found ignore; allowed: follow, report or label, or source: static"},
		{"retired key", with("quorum: {lastManStanding: false}"), "quorum.lastManStanding: is not a known key: remove it, no version supported it"},
		{"on fence halt", with("watchdog: {onFence: halt}"), "watchdog.onFence: is not a choice, found halt; allowed: expire, reboot, crash"},
	})
}

func TestRefusesALeaseThatCannotDecide(t *testing.T) {
	const kube = "kubernetes: {kubeconfig: /k}\nquorum: {tieBreak: lease}"
	many := func(n int) string {
		text := "members:\n  static:\n"
		for i := 1; i <= n; i++ {
			text += fmt.Sprintf("    - {name: n%d, addresses: {mgmt: 10.0.0.%d}}\n", i, i)
		}
		return text
	}
	expectProblems(t, []problemCase{
		{"lease and LUN", with(kube, "lun: {devices: [/dev/sda]}"), "quorum.tieBreak: cannot be combined with lun.devices: one half could win the Lease and the other half the LUN, found lease; allowed: lease without a LUN, or another value"},
		{"lease without API server", with("quorum: {tieBreak: lease}"), "quorum.tieBreak: needs an API server, and this is not a pod, found lease; allowed: lease with kubernetes.kubeconfig, or another value"},
		{"lease and many members", with(kube, many(36)), "quorum.tieBreak: leaves no time to arbitrate among 36 members: turns of 200ms each in a half and three requests of up to 2s need 10.1s, " +
			"the arbitration budget of 4 lun.heartbeatInterval + 3 lun.ioTimeout is 10s, found lease; allowed: lease with a greater lun.ioTimeout or timing: careful, which make the budget longer, also without a LUN"},
	})
	for name, file := range map[string]string{
		"alone": with(kube), "many members": with(kube, many(35)), "more, and careful": with(kube, many(100), "timing: careful"), "fast": with(kube, many(8), "timing: fast"),
	} {
		c, _ := mustParse(t, file, environment())
		if !c.UsesLease() {
			t.Errorf("%s: no Lease is used", name)
		}
	}
}

// Guard: K3. A node that has not reported how long its watchdog waits counts as if it had the longest timeout.
func TestLongestHorizonIsThatOfTheLongestTimeout(t *testing.T) {
	if _, _, err := Parse("f", []byte(with("watchdog: {timeout: 3601s}")), environment("NODE_NAME", "n1")); err == nil {
		t.Error("a watchdog may wait for longer than an hour")
	}
	c, _, err := Parse("f", []byte(with("watchdog: {timeout: 1h}")), environment("NODE_NAME", "n1"))
	if err != nil {
		t.Fatal(err)
	}
	if longest, own := c.LongestHorizon(2), c.BudgetFor(2*c.Watchdog.Timeout, 2).Horizon(); longest != own || own < 4*time.Hour {
		t.Errorf("%v, with a watchdog of an hour %v", longest, own)
	}
}

// Guard: K3. Whatever the budget, a grant is not replaced while a node still feeds under it.
func TestLeaseExpiryIsLongerThanItsTerm(t *testing.T) {
	for _, file := range []string{with(), with("timing: fast"), with("timing: careful"), with("watchdog: {timeout: 2s}", "lun: {heartbeatInterval: 100ms, ioTimeout: 200ms}")} {
		c, _ := mustParse(t, file, environment())
		if e := c.LeaseExpiry(2); e < LeaseTerm+LeaseTerm/8 || e < LeaseTerm+c.Budget(c.Watchdog.Timeout).Horizon() {
			t.Errorf("expiry %v, term %v", e, LeaseTerm)
		}
	}
}

// checkLine checks that a problem points at the key itself or at a section around it.
func checkLine(t *testing.T, file string, p Problem) {
	t.Helper()
	if p.Line == 0 {
		return
	}
	lines := strings.Split(file, "\n")
	if p.Line > len(lines) {
		t.Errorf("%s: line %d of %d", p, p.Line, len(lines))
		return
	}
	words := strings.FieldsFunc(p.Path, func(c rune) bool { return strings.ContainsRune(`.[]"`, c) })
	if len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool {
		_, err := strconv.Atoi(w)
		return err != nil && strings.Contains(lines[p.Line-1], w) || err == nil && strings.Contains(lines[p.Line-1], "- ")
	}) {
		t.Errorf("%s: line %d is %q", p, p.Line, lines[p.Line-1])
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct {
		name, file string
		env        []string
		want       []string
	}{
		{"none about binding to devices", with("systemNetworks: [{name: mgmt, at: eth0, bindToDevice: true}, {name: b, at: 10.1.0.0/16}]",
			"members: {static: [{name: n1, addresses: {mgmt: 10.0.0.1, b: 10.1.0.1}}]}"), nil, nil},
		{"even and nothing decides", with("members: {static: [{name: n1, addresses: {mgmt: 10.0.0.1}}, {name: n2, addresses: {mgmt: 10.0.0.2}}]}"), nil,
			[]string{"quorum.tieBreak: has nothing that could decide"}},
		{"even and nothing is to decide", with("members: {static: [{name: n1, addresses: {mgmt: 10.0.0.1}}, {name: n2, addresses: {mgmt: 10.0.0.2}}]}",
			"lun: {devices: [/dev/mapper/fence]}", "quorum: {tieBreak: none}"), nil,
			[]string{"quorum.tieBreak: lets nothing decide an equal split, not even the LUN that is given: both halves stop"}},
		{"even and the API decides", with("members: {static: [{name: n1, addresses: {mgmt: 10.0.0.1}}, {name: n2, addresses: {mgmt: 10.0.0.2}}]}"),
			[]string{"KUBERNETES_SERVICE_HOST=10.96.0.1"}, nil},
		{"a hold with a gap", with("lun: {devices: [/dev/mapper/fence], heartbeatInterval: 200ms, ioTimeout: 400ms}"), nil,
			[]string{"lun.hold: leaves a gap: in an outage of all networks nodes may stop for a moment"}},
		{"no hold, no gap", with("lun: {devices: [/dev/mapper/fence], heartbeatInterval: 200ms, ioTimeout: 400ms, hold: false}"), nil, nil},
		{"settings without effect", with("lun: {mode: or}", "quorum: {tieBreak: kubernetes}", "watchdog: {driver: none, onFence: crash}"), nil,
			[]string{
				"quorum.tieBreak: cannot ask the API server: there is no kubernetes.kubeconfig, and the agent does not run in a pod, found kubernetes",
				"lun.mode: has no effect: there is no LUN, found or",
				"watchdog.onFence: has no effect: watchdog.driver is none, found crash",
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, got := mustParse(t, tt.file, environment(tt.env...))
			var texts []string
			for _, w := range got {
				texts = append(texts, w.String())
			}
			slices.Sort(texts)
			slices.Sort(tt.want)
			if !slices.EqualFunc(texts, tt.want, strings.HasPrefix) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(texts, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func TestWarningsComeWithProblems(t *testing.T) {
	_, warnings, err := parse("f", []byte(with("watchdog: {driver: none, onFence: crash}", "cluster: 7")), noEnv, hostname)
	if err == nil || len(warnings) != 1 {
		t.Errorf("got %v, %v", warnings, err)
	}
}

// TestTags parses every range and form tag, so that no key panics only when it is set.
func TestTags(t *testing.T) {
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		for _, f := range fieldsOf(typ) {
			at, ft := child(path, f.key), typ.FieldByIndex(f.index).Type
			for ft.Kind() == reflect.Pointer || ft.Kind() == reflect.Slice {
				ft = ft.Elem()
			}
			if form := f.tag.Get("form"); form != "" && forms[form].valid == nil {
				t.Errorf("%s: form %q is not known", at, form)
			}
			switch {
			case isSection(ft):
				walk(at, ft)
			case ft == reflect.TypeFor[time.Duration]():
				bounds(f.tag.Get("range"), time.ParseDuration)
			case ft.Kind() == reflect.Int && ft != reflect.TypeFor[Size]():
				bounds(f.tag.Get("range"), strconv.Atoi)
			case ft == reflect.TypeFor[string]() && f.tag.Get("form") == "":
				t.Errorf("%s: a string without form", at)
			}
		}
	}
	walk("", reflect.TypeFor[Config]())
}

func TestNearest(t *testing.T) {
	words := []string{"interface", "cidr", "port", "or"}
	for s, want := range map[string]string{
		"intreface": "interface", "Interface": "interface", "prot": "port", "cdir": "cidr",
		"": "", "netmask": "", "x": "", "po": "",
	} {
		if got := nearest(s, words); got != want {
			t.Errorf("nearest(%q) = %q, want %q", s, got, want)
		}
	}
}

// TestGossipWarnings has settings that work, but not well.
func TestGossipWarnings(t *testing.T) {
	for _, c := range []struct{ name, gossip, want string }{
		{"probe timeout", "experimental: {probeInterval: 1s, probeTimeout: 401ms}",
			"experimental.probeTimeout: is above 0.4 probeInterval = 400ms: the helpers' nacks come too late, and each crash slows the probing of healthy nodes, found 401ms"},
		{"probe timeout at the limit", "experimental: {probeInterval: 1s, probeTimeout: 400ms}", ""},
		{"few retransmissions", "experimental: {retransmitMult: 7}",
			"experimental.retransmitMult: is small: with 4 members a piece of news is sent 7 times, and a lossy network loses refutations below 8, found 7"},
		{"enough retransmissions", "experimental: {retransmitMult: 8}", ""},
		{"adr", "timing: adr", ""},
		{"fast", "timing: fast", ""},
		{"wan", "timing: wan", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, warnings, err := parse("f", []byte(with(members(4), network("name: mgmt, at: e"), c.gossip)), noEnv, hostname)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range warnings {
				if strings.HasPrefix(w.Path, "experimental.") {
					got = append(got, w.String())
				}
			}
			if strings.Join(got, "\n") != c.want {
				t.Errorf("warnings %q, want %q", got, c.want)
			}
		})
	}
}

// TestRefusesOnePathForTwoThings: a stored list with the name of the disable file would keep the node unguarded for
// ever.
func TestRefusesOnePathForTwoThings(t *testing.T) {
	expectProblems(t, []problemCase{
		{"cache is disable file", with("watchdog: {disableFile: /var/lib/fencing-agent/members.json}"), "watchdog.disableFile: is also the path of members.cacheFile, found /var/lib/fencing-agent/members.json; allowed: a path of its own"},
		{"cache is a device", with("members: {static: [{name: n1, addresses: {mgmt: 10.0.0.1}}], cacheFile: /dev/x}", "lun: {devices: [/dev/../dev/x]}"), "lun.devices[0]: is also the path of members.cacheFile"},
		{"cache is the keyring", with("gossip: {keyFile: /var/lib/fencing-agent//members.json}"), "gossip.keyFile: is also the path of members.cacheFile"},
		{"socket is disable file", with("api: {socket: /a}", "watchdog: {disableFile: /a}"), "api.socket: is also the path of watchdog.disableFile"},
		{"device twice is told once", with("lun: {devices: [/dev/x, /dev/y, /dev/x]}"), "lun.devices[2]: is listed twice"},
	})
}
