package config

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// oldFiles holds old files, what replaces them, and what remains to be written by hand. If the new file is empty, it
// equals the old one.
var oldFiles = []struct{ name, old, now, byHand string }{
	{"a file of this version", "# as it is\n\ncluster:   prod # spaces stay\n\napi: {commands: none}\n", "", ""},
	{"an empty file", "", "", ""},
	{"commands, the default", "cluster: prod\napi:\n  confirmDead: true\n  fence: true\n", "cluster: prod\n", ""},
	{"commands from anywhere", "api: {socket: /run/a.sock, rootFrom: anywhere, socketGroup: g}\n", "api: {socket: /run/a.sock, commands: anywhere, socketGroup: g}\n", ""},
	{"no commands", "# who may\napi:\n  # not even root\n  confirmDead: false # for now\n  fence: false\n  rootFrom: agent\n", "# who may\napi:\n  # not even root\n  commands: none # for now\n", ""},
	{"no deaths that are told", "api:\n  confirmDead: false\n", "api:\n  commands: none\n", ""},
	{"two words for commands", "cluster: c\napi: {confirmDead: false, rootFrom: anywhere}\n", "", "api.confirmDead is now api.commands: none"},
	{"commands twice", "api: {commands: root, fence: false}\n", "", "api.fence is now api.commands: none"},
	{"no self-fence", "watchdog: {sentenceAfter: off}\n", "watchdog: {selfFence: none}\n", ""},
	{"no self-fence, as Helm writes it", "watchdog:\n  sentenceAfter: false\n", "watchdog:\n  selfFence: none\n", ""},
	{"no self-fence, and one for the LUN", "watchdog: {sentenceAfter: off, sentenceOnLUNLoss: true}\n", "", "watchdog.sentenceAfter is now watchdog.selfFence: none"},
	{"self-fence for the LUN", "lun: {mode: and}\nwatchdog:\n  sentenceOnLUNLoss: true\n", "lun: {mode: and}\nwatchdog:\n  selfFence: quorum-or-lun\n", ""},
	{"a late self-fence", "watchdog:\n  sentenceAfter: 7s\n  sentenceTimeout: 1s\n", "watchdog:\n  sentenceAfter: 7s\n", "watchdog.sentenceAfter is now watchdog.selfFence: quorum, and experimental.selfFenceAfter is the time"},
	{"another countdown", "watchdog: {sentenceTimeout: 2s}\n", "", "watchdog.sentenceTimeout is gone: the agent takes"},
	{"feedings", "watchdog:\n  timeout: 60s # long\n  # often\n  feedInterval: 10s # enough\n", "watchdog:\n  timeout: 60s # long\nexperimental:\n  # often\n  feedInterval: 10s # enough\n", ""},
	{"networks", "systemNetworks:\n  - name: a # one\n    # the card\n    interface: eth0 # here\n    port: 1\n  - {name: b, cidr: 10.0.0.0/24}\n  - address: 10.1.0.1\n    name: c\n",
		"systemNetworks:\n  - name: a # one\n    # the card\n    at: eth0 # here\n    port: 1\n  - {name: b, at: 10.0.0.0/24}\n  - at: 10.1.0.1\n    name: c\n", ""},
	{"a network in two places", "systemNetworks: [{name: a, interface: e0, cidr: 10.0.0.0/24}]\n", "", "systemNetworks[0].interface is now systemNetworks[0].at"},
	{"gossip of the timing", "timing: careful # yes\ngossip: {profile: calm}\n", "", "gossip.profile is now timing: default for auto"},
	{"parameters", "gossip:\n  overrides:\n    # slow\n    probeInterval: 1s # a second\n    gossipNodes: 4\n  lifeguard: false\n  leftByDoubt: true\n",
		"experimental:\n  # slow\n  probeInterval: 1s # a second\n  gossipNodes: 4\n  lifeguard: false\n  leftByDoubt: true\n", ""},
	{"a section that is a list", "gossip: {lifeguard: true}\nexperimental: []\n", "", "gossip.lifeguard is now experimental.lifeguard: true"},
	{"a section that is an alias", "a: &x {}\ngossip: {lifeguard: true}\nexperimental: *x\n", "", "gossip.lifeguard is now experimental.lifeguard: true"},
	{"a parameter twice", "gossip: {overrides: {probeInterval: 1s}}\nexperimental: {probeInterval: 2s}\n", "", "gossip.overrides.probeInterval is now experimental.probeInterval"},
	{"the usual tie-breakers", "quorum: {tieBreakers: [lun, kubernetes]}\nkubernetes: {tieBreak: reachability}\nlun: {devices: [/dev/a], unavailableAtTie: fence}\n", "lun: {devices: [/dev/a]}\n", ""},
	{"no tie-breaker", "quorum:\n  tieBreakers: [] # both stop\n", "quorum:\n  tieBreak: none # both stop\n", ""},
	{"the LUN alone", "quorum:\n  size: 3\n  tieBreakers: [lun]\nlun: {devices: [/dev/a]}\n", "quorum:\n  size: 3\n  tieBreak: lun\nlun: {devices: [/dev/a]}\n", ""},
	{"the LUN alone, and the API server without it", "quorum: {tieBreakers: [lun]}\nlun: {unavailableAtTie: kubernetes}\n", "", "quorum.tieBreakers is now quorum.tieBreak: lun"},
	{"the API server beside a LUN", "quorum: {tieBreakers: [kubernetes]}\nlun: {devices: [/dev/a]}\n", "quorum: {tieBreak: kubernetes}\nlun: {devices: [/dev/a]}\n", ""},
	{"a Lease", "kubernetes: {tieBreak: lease}\n", "quorum:\n  tieBreak: lease\n", ""},
	{"the API server without the LUN", "lun:\n  devices: [/dev/a]\n  unavailableAtTie: kubernetes\n", "lun:\n  devices: [/dev/a]\nquorum:\n  tieBreak: lun-then-kubernetes\n", ""},
	{"a Node of no cluster", "kubernetes:\n  kubeconfig: /k\n  watchNode: false # none\n", "kubernetes:\n  kubeconfig: /k\n  node: ignore # none\n", ""},
	{"all about the Node", "kubernetes: {labels: true, events: true}\n", "kubernetes: {node: label}\n", ""},
	{"no deaths on the Node", "kubernetes: {deaths: false}\n", "", "kubernetes.deaths is now kubernetes.node: one word for"},
	{"the file first", "watchdog: {disablePriority: [file, controller]}\n", "watchdog: {disableFirst: file}\n", ""},
	{"the Node first", "watchdog:\n  disablePriority: [controller, file]\n", "watchdog:\n  disableFirst: node\n", ""},
	{"any of them", "watchdog: {disablePriority: [], timeout: 30s}\n", "watchdog: {timeout: 30s}\n", ""},
	{"keys of laboratories", "gossip: {sources: any}\nmembers: {checkInterval: 7m, epoch: 2}\nhistory: {megabytes: 0}\n", "members: {epoch: 2}\nexperimental:\n  gossipSources: any\n  checkInterval: 7m\n  historyMegabytes: 0\n", ""},
	{"credentials", "members: {controller: {caFile: /etc/ca.pem, address: 'c:1'}}\n", "", "members.controller.caFile is now members.controller.credentials: the folder"},
	{"the usual socket", "api: {socketMode: \"0660\", socketGroup: g}\n", "api: {socketGroup: g}\n", ""},
	{"a socket of root's", "api: {socketMode: \"0600\", socketGroup: g}\n", "", "api.socketMode is gone: the socket has mode 0660"},
	{"booleans in capitals", "kubernetes: {watchNode: True}\napi: {fence: TRUE}\nwatchdog: {sentenceOnLUNLoss: True}\n", "watchdog: {selfFence: quorum-or-lun}\n", ""},

	// A file with which no agent ever started must not become one with which an agent starts.
	{"no boolean", "kubernetes: {watchNode: ture}\n", "", "kubernetes.watchNode is now kubernetes.node: one word"},
	{"a list for a boolean", "kubernetes: {watchNode: [true]}\n", "", "kubernetes.watchNode is now kubernetes.node: one word"},
	{"no value", "kubernetes:\n  watchNode:\n", "", "kubernetes.watchNode is now kubernetes.node: one word"},
	{"no duration", "watchdog: {feedInterval: ~}\n", "", "watchdog.feedInterval is now experimental.feedInterval"},
	{"one source of maintenance", "watchdog: {disablePriority: [file]}\n", "", "watchdog.disablePriority is now watchdog.disableFirst: any, file or node"},
	{"no list of sources", "watchdog: {disablePriority: \"[]\"}\n", "", "watchdog.disablePriority is now"},
	{"no tie-breaker that there is", "quorum: {tieBreakers: [kubernets]}\n", "", "quorum.tieBreakers is now quorum.tieBreak: one word"},
	{"two in one word", "quorum: {tieBreakers: [\"lun, kubernetes\"]}\n", "", "quorum.tieBreakers is now quorum.tieBreak: one word"},
	{"an alias", "a: &x true\nkubernetes: {watchNode: *x}\n", "", "kubernetes.watchNode is now kubernetes.node: one word"},
	{"an anchor", "kubernetes: {watchNode: &x true}\n", "", "kubernetes.watchNode is now kubernetes.node: one word"},
	{"a section that is none", "experimental: none\nwatchdog: {feedInterval: 4s}\n", "", "watchdog.feedInterval is now experimental.feedInterval"},
}

func TestMigrate(t *testing.T) {
	for _, c := range oldFiles {
		t.Run(c.name, func(t *testing.T) {
			m, err := Migrate("agent.yaml", []byte(c.old))
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
			if byHand := strings.Join(m.ByHand, "\n"); !strings.HasPrefix(byHand, c.byHand) || c.byHand == "" && byHand != "" {
				t.Errorf("by hand %q, want %q", byHand, c.byHand)
			}
			if (c.now == "") != (len(m.Changed) == 0) {
				t.Errorf("changed %q", m.Changed)
			}
			again, err := Migrate("agent.yaml", m.Text)
			if err != nil || string(again.Text) != string(m.Text) || len(again.Changed) > 0 {
				t.Errorf("once more: %v, %v\n%s", err, again.Changed, again.Text)
			}
		})
	}
}

// Each old key is refused at the start with the key that replaces it, and this version has no such key.
func TestOldKeysAreRefusedWithTheNewOne(t *testing.T) {
	for _, m := range movedKeys {
		if slices.Contains(Keys(), m.old) {
			t.Errorf("%s is a key of this version", m.old)
		}
		if m.now != "" && !slices.Contains(Keys(), m.now) {
			t.Errorf("%s is carried to %s, which is not a key", m.old, m.now)
		}
		if m.values != nil && m.byHand == "" {
			t.Errorf("%s: nothing says what to write by hand", m.old)
		}
	}
	said := regexp.MustCompile(`^is (now [a-zA-Z.\[\]0-9]+(: .+|, whose default says the same)?|gone: .+); run fencectl config migrate agent\.yaml$`)
	for _, c := range oldFiles {
		_, _, err := parse("agent.yaml", []byte(c.old), noEnv, hostname)
		texts := 0
		for _, p := range err.(*Invalid).Problems { //nolint:errorlint,forcetypeassert // none of them concerns a whole file
			if strings.HasPrefix(p.What, "is no longer a section: ") {
				texts++
			} else if strings.Contains(p.What, "config migrate") {
				if texts++; !said.MatchString(p.What) {
					t.Errorf("%s: %s says %q", c.name, p.Path, p.What)
				}
			}
		}
		if m, err := Migrate("agent.yaml", []byte(c.old)); err != nil || len(m.Changed)+len(m.ByHand) < texts {
			t.Errorf("%s: %d refused, migrated %q, by hand %q: %v", c.name, texts, m.Changed, m.ByHand, err)
		}
	}
}

func TestMigrateRefuses(t *testing.T) {
	for file, want := range map[string]string{
		"a: b: c\n":         "agent.yaml: is not YAML",
		"- a\n":             "cannot unmarshal !!seq",
		"a: b\n---\na: c\n": "has a second document",
		"watchdog: {feedInterval: 4s, feedInterval: 3s}\n":                 `"feedInterval" already defined`,
		"watchdog: {feedInterval: 4s}\nwatchdog: {}\n":                     `"watchdog" already defined`,
		"systemNetworks: [{name: a, interface: e0}, {port: 1, port: 2}]\n": `"port" already defined`,
		"gossip: &g {lifeguard: true}\nother: *g\n":                        "gossip: anchors and aliases are not supported",
		"history: {megabytes: &m 5}\nlun: {slots: *m}\n":                   "lun.slots: anchors and aliases are not supported",
	} {
		if _, err := Migrate("agent.yaml", []byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", file, err, want)
		}
	}
}
