package config

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// oldFiles are files of before, what stands in their place, and what is lost. An empty new file is the same as the old one.
var oldFiles = []struct{ name, old, now, lost string }{
	{"a file of this version", "# as it is\n\ncluster:   prod # spaces stay\n\napi: {commands: none}\n", "", ""},
	{"an empty file", "", "", ""},
	{"commands, the default", "cluster: prod\napi:\n  confirmDead: true\n  fence: true\n", "cluster: prod\n", ""},
	{"commands from anywhere", "api: {socket: /run/a.sock, rootFrom: anywhere, socketGroup: g}\n", "api: {socket: /run/a.sock, commands: anywhere, socketGroup: g}\n", ""},
	{"no commands", "# who may\napi:\n  # not even root\n  confirmDead: false # for now\n  fence: false\n  rootFrom: anywhere\n", "# who may\napi:\n  # not even root\n  commands: none # for now\n", ""},
	{"no deaths that are told", "api:\n  confirmDead: false\n", "api:\n  commands: none\n", "api.confirmDead and api.fence differ"},
	{"no self-fence", "watchdog: {sentenceAfter: off, sentenceOnLUNLoss: true}\n", "watchdog: {selfFence: none}\n", ""},
	{"no self-fence, as Helm writes it", "watchdog:\n  sentenceAfter: false\n", "watchdog:\n  selfFence: none\n", ""},
	{"self-fence for the LUN", "lun: {mode: and}\nwatchdog:\n  sentenceOnLUNLoss: true\n", "lun: {mode: and}\nwatchdog:\n  selfFence: quorum-or-lun\n", ""},
	{"the default self-fence", "timing: fast\nwatchdog: {sentenceAfter: 1500ms, sentenceTimeout: 1s, sentenceOnLUNLoss: false}\n", "timing: fast\n", ""},
	{"a late self-fence", "watchdog:\n  # slow hosts\n  sentenceAfter: 7s\n  sentenceTimeout: 2s\n", "experimental:\n  # slow hosts\n  selfFenceAfter: 7s\n", "watchdog.sentenceTimeout: 2s: the agent takes"},
	{"feedings that follow", "watchdog: {timeout: 20s, feedInterval: 5s}\n", "watchdog: {timeout: 20s}\n", ""},
	{"feedings that follow from a short timeout", "watchdog: {timeout: 10s, feedInterval: 2s}\n", "watchdog: {timeout: 10s}\n", ""},
	{"feedings of one's own", "watchdog:\n  timeout: 60s # long\n  feedInterval: 10s # enough\n", "watchdog:\n  timeout: 60s # long\nexperimental:\n  feedInterval: 10s # enough\n", ""},
	{"networks", "systemNetworks:\n  - name: a # one\n    # the card\n    interface: eth0 # here\n    port: 1\n  - {name: b, cidr: 10.0.0.0/24}\n  - address: 10.1.0.1\n    name: c\n",
		"systemNetworks:\n  - name: a # one\n    # the card\n    at: eth0 # here\n    port: 1\n  - {name: b, at: 10.0.0.0/24}\n  - at: 10.1.0.1\n    name: c\n", ""},
	{"gossip of the timing", "timing: careful # yes\ngossip: {profile: calm}\n", "timing: careful # yes\n", ""},
	{"slow gossip", "gossip:\n  # a long way\n  profile: calm\n  keyFile: /k\n", "gossip:\n  keyFile: /k\n# a long way\ntiming: wan\n", ""},
	{"the table of the founding text", "timing: default\ngossip: {profile: adr}\n", "timing: adr\n", ""},
	{"careful with usual gossip", "timing: careful\ngossip: {profile: auto}\n", "timing: default\nlun:\n  heartbeatInterval: 2s\n  ioTimeout: 5s\nexperimental:\n  selfFenceAfter: 10s\n", ""},
	{"fast gossip alone", "lun: {ioTimeout: 3s}\nwatchdog: {timeout: 8s, sentenceAfter: off}\ngossip: {profile: fast}\n",
		"lun: {ioTimeout: 3s, heartbeatInterval: 1s}\nwatchdog: {timeout: 8s, selfFence: none}\ntiming: fast\nexperimental:\n  feedInterval: 1.6s\n", ""},
	{"fast gossip, and a given feeding", "watchdog: {timeout: 20s, feedInterval: 1s}\ngossip: {profile: fast}\n",
		"watchdog: {timeout: 20s}\ntiming: fast\nlun:\n  heartbeatInterval: 1s\n  ioTimeout: 2s\nexperimental:\n  selfFenceAfter: 5.2s\n", ""},
	{"parameters", "gossip:\n  profile: fixed\n  overrides:\n    # slow\n    probeInterval: 1s # a second\n    gossipNodes: 4\n  lifeguard: false\n  leftByDoubt: true\n",
		"experimental:\n  # slow\n  probeInterval: 1s # a second\n  gossipNodes: 4\n  lifeguard: false\n", ""},
	{"no parameters", "gossip: {overrides: {}, keyFile: /k}\n", "gossip: {keyFile: /k}\n", ""},
	{"the usual tie-breakers", "quorum: {tieBreakers: [lun, kubernetes]}\nkubernetes: {tieBreak: reachability}\nlun: {devices: [/dev/a], unavailableAtTie: fence}\n", "lun: {devices: [/dev/a]}\n", ""},
	{"no tie-breaker", "quorum:\n  tieBreakers: [] # both stop\n", "quorum:\n  tieBreak: none # both stop\n", ""},
	{"the LUN alone", "quorum:\n  size: 3\n  tieBreakers: [lun]\nlun: {devices: [/dev/a], unavailableAtTie: kubernetes}\n", "quorum:\n  size: 3\n  tieBreak: lun\nlun: {devices: [/dev/a]}\n", ""},
	{"the API server beside a LUN", "quorum: {tieBreakers: [kubernetes]}\nlun: {devices: [/dev/a]}\n", "quorum: {tieBreak: kubernetes}\nlun: {devices: [/dev/a]}\n", ""},
	{"a Lease", "kubernetes: {tieBreak: lease}\n", "quorum:\n  tieBreak: lease\n", ""},
	{"a Lease that has no say", "kubernetes: {tieBreak: lease}\nquorum: {tieBreakers: []}\n", "quorum: {tieBreak: none}\n", ""},
	{"the API server without the LUN", "lun:\n  devices: [/dev/a]\n  unavailableAtTie: kubernetes\n", "lun:\n  devices: [/dev/a]\nquorum:\n  tieBreak: lun-then-kubernetes\n", ""},
	{"the API server without a LUN", "lun: {unavailableAtTie: kubernetes, hold: false}\n", "lun: {hold: false}\n", ""},
	{"a Node of no cluster", "kubernetes:\n  kubeconfig: /k\n  watchNode: false # none\n  deaths: false\n", "kubernetes:\n  kubeconfig: /k\n  node: ignore # none\n", ""},
	{"all about the Node", "kubernetes: {labels: true, events: true}\n", "kubernetes: {node: label}\n", ""},
	{"nothing on the Node", "kubernetes: {events: false, deaths: false}\n", "kubernetes: {node: follow}\n", ""},
	{"no deaths on the Node", "kubernetes: {deaths: false}\n", "kubernetes: {node: follow}\n", "kubernetes.deaths is false, and Events"},
	{"no Events", "kubernetes: {events: false, names: deckhouse}\n", "kubernetes: {names: deckhouse}\n", "kubernetes.events is false, and kubernetes.node: report creates"},
	{"the file first", "watchdog: {disablePriority: [file, controller]}\n", "watchdog: {disableFirst: file}\n", ""},
	{"the Node first", "watchdog:\n  disablePriority: [controller, file]\n", "watchdog:\n  disableFirst: node\n", ""},
	{"any of them", "watchdog: {disablePriority: [], timeout: 30s}\n", "watchdog: {timeout: 30s}\n", ""},
	{"keys of laboratories", "gossip: {sources: any}\nmembers: {checkInterval: 7m, epoch: 2}\nhistory: {megabytes: 0}\n", "members: {epoch: 2}\nexperimental:\n  gossipSources: any\n  checkInterval: 7m\n  historyMegabytes: 0\n", ""},
	{"keys of laboratories, by default", "gossip: {sources: members, keyFile: /k}\nmembers: {checkInterval: 5m}\nhistory: {megabytes: 4}\n", "gossip: {keyFile: /k}\n", ""},
	{"credentials in one folder", "members:\n  controller:\n    caFile: /etc/c/ca.crt\n    tokenFile: /etc/c/token\n    address: c:1\n", "members:\n  controller:\n    credentials: /etc/c\n    address: c:1\n", ""},
	{"credentials elsewhere", "members: {controller: {caFile: /etc/ca.pem, address: 'c:1'}}\n", "members: {controller: {address: 'c:1'}}\n", "the agent reads the CA from /var/run/secrets/fencing-controller/ca.crt"},
	{"the usual socket", "api: {socketMode: \"0660\", socketGroup: g}\n", "api: {socketGroup: g}\n", ""},
	{"a socket of root's", "api: {socketMode: \"0600\", socketGroup: g}\n", "api: {socketGroup: g}\n", "api.socketMode: 0600: the socket has mode 0660"},
	{"a comment behind a key that goes", "watchdog:\n  timeout: 30s\n  sentenceTimeout: 1s\n  # device: /dev/watchdog1\n\n# the rest\ncluster: c\n",
		"watchdog:\n  timeout: 30s\n  # device: /dev/watchdog1\n# the rest\ncluster: c\n", ""},
	{"a comment behind the first key", "api:\n  fence: true\n  # nobody\n\n  socketGroup: g\n", "api:\n  # nobody\n  socketGroup: g\n", ""},
	{"a comment behind a key that moves", "systemNetworks:\n  - name: a\n    interface: eth0\n    # port: 7947\n\n  # two\n  - name: b\n    cidr: 10.0.0.0/24\n",
		"systemNetworks:\n  - name: a\n    at: eth0\n    # port: 7947\n  # two\n  - name: b\n    at: 10.0.0.0/24\n", ""},
	{"booleans in capitals", "kubernetes: {watchNode: True}\napi: {fence: TRUE}\nwatchdog: {sentenceOnLUNLoss: True}\n", "watchdog: {selfFence: quorum-or-lun}\n", ""},
	{"no orders", "api:\n  fence: false\n", "api:\n  commands: none\n", "api.confirmDead and api.fence differ"},
}

func TestMigrate(t *testing.T) {
	for _, c := range oldFiles {
		t.Run(c.name, func(t *testing.T) {
			m, err := Migrate([]byte(c.old))
			if err != nil {
				t.Fatal(err)
			}
			want := c.now
			if want == "" {
				want = c.old
			}
			if string(m.Text) != want {
				t.Errorf("got\n%s\nwant\n%s", m.Text, want)
			}
			if lost := strings.Join(m.Lost, "\n"); !strings.HasPrefix(lost, c.lost) || c.lost == "" && lost != "" {
				t.Errorf("lost %q, want %q", lost, c.lost)
			}
			if (c.now == "") != (len(m.Changed) == 0) {
				t.Errorf("changed %q", m.Changed)
			}
			again, err := Migrate(m.Text)
			if err != nil || string(again.Text) != string(m.Text) || len(again.Changed) > 0 {
				t.Errorf("once more: %v, %v\n%s", err, again.Changed, again.Text)
			}
		})
	}
}

// Each old key is refused at the start with what stands in its place, and is none of this version.
func TestOldKeysAreRefusedWithTheNewOne(t *testing.T) {
	said := regexp.MustCompile(`^is (now [a-zA-Z.\[\]0-9]+(: .+|, whose default says the same)|gone: .+).*; run fencectl config migrate agent\.yaml`)
	for _, row := range movedKeys() {
		for _, old := range row.old {
			if slices.Contains(Keys(), old) {
				t.Errorf("%s is a key of this version", old)
			}
			for _, now := range row.carry(before{root: word("")}).set {
				if !known(now.key) {
					t.Errorf("%s is carried to %s, which is no key", old, now.key)
				}
			}
		}
	}
	for _, c := range oldFiles {
		_, _, err := parse("agent.yaml", []byte(c.old), noEnv, hostname)
		var texts []string
		for _, p := range err.(*Invalid).Problems { //nolint:errorlint,forcetypeassert // none of them is a whole file
			if strings.Contains(p.What, "config migrate") {
				texts = append(texts, p.Path+": "+p.What)
				if !said.MatchString(p.What) {
					t.Errorf("%s: %s says %q", c.name, p.Path, p.What)
				}
			}
		}
		if m, err := Migrate([]byte(c.old)); err != nil || len(m.Changed) != len(texts) {
			t.Errorf("%s: refused %q, migrated %q: %v", c.name, texts, m.Changed, err)
		}
	}
}

func known(key string) bool { return slices.Contains(Keys(), inBrackets.ReplaceAllString(key, "[]")) }

func TestMigrateRefuses(t *testing.T) {
	for file, want := range map[string]string{
		"a: b: c\n":                             "is not YAML",
		"- a\n":                                 "is not a mapping",
		"a: b\n---\na: c\n":                     "has a second document",
		"api: {commands: root, fence: false}\n": "api.commands is in the file already",

		// What no agent ever started with becomes nothing that one starts with.
		"kubernetes: {watchNode: ture}\n":                                  `kubernetes.watchNode is not a choice: found ture, allowed: true, false`,
		"kubernetes: {watchNode: [true]}\n":                                "kubernetes.watchNode is not a plain value: found a list",
		"kubernetes:\n  watchNode:\n":                                      "kubernetes.watchNode has no value",
		"watchdog: {sentenceAfter: ~}\n":                                   "watchdog.sentenceAfter has no value",
		"watchdog: {sentenceAfter: [off]}\n":                               "watchdog.sentenceAfter is not a plain value: found a list",
		"watchdog: {disablePriority: [file]}\n":                            "watchdog.disablePriority does not name both",
		"watchdog: {disablePriority: file}\n":                              "watchdog.disablePriority is not a list",
		"quorum: {tieBreakers: [kubernets]}\n":                             `quorum.tieBreakers[0] is not a choice: found kubernets`,
		"gossip: {profile: calmer}\n":                                      "gossip.profile is not a choice",
		"gossip: {overrides: [1]}\n":                                       "gossip.overrides is not a mapping",
		"a: &x true\nkubernetes: {watchNode: *x}\n":                        "kubernetes.watchNode is not a plain value: found an alias",
		"watchdog: {feedInterval: &x 4s}\n":                                "watchdog.feedInterval has an anchor",
		"systemNetworks: [{name: a, interface: e0, cidr: 10.0.0.0/24}]\n":  "systemNetworks[0] says twice where the network is",
		"watchdog: {feedInterval: 4s, feedInterval: 3s}\n":                 "watchdog.feedInterval is given twice",
		"watchdog: {feedInterval: 4s}\nwatchdog: {}\n":                     "watchdog is given twice",
		"systemNetworks: [{name: a, interface: e0}, {port: 1, port: 2}]\n": "systemNetworks[1].port is given twice",
	} {
		if _, err := Migrate([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", file, err, want)
		}
	}
}
