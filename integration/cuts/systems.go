package cuts

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// system is what runs on the machines of a cluster.
type system struct {
	name    string
	version []string // packages whose versions are named; empty: it is this agent
	etc     func(id int) (map[string]string, error)
	service string // script, run at each boot
	prepare string // script, run on the first machine once, before all services go on
	ready   string // script that succeeds on a machine that is well, and has all others
	idle    string // what a machine says that has no quorum any more
	// told finds in a line that a machine holds another for dead, in the sense that others may act; "" for none.
	told func(text string) (victim string)
}

// names of the machines of a cluster, one of which is cut off.
var names = []string{"n1", "n2", "n3"}

func address(network, id int) string { return fmt.Sprintf("10.77.%d.%d", network, id) }

// agent is this agent by one of its presets.
func agent(timing string) *system {
	return &system{
		name: "fencing-agent, `" + timing + "`",
		etc: func(id int) (map[string]string, error) {
			text, err := yaml.Marshal(agentConfig(timing, id))
			return map[string]string{"agent.yaml": string(text)}, err
		},
		// Started again when it ends, as by its unit.
		service: "mkdir -p /var/lib/fencing-agent\nwhile :; do /programs/fencing-agent --config /etc/agent.yaml --log-format json 2>&1; sleep 1; done\n",
		ready:   "/programs/fencectl status --check -o json --socket /run/agent.sock > /tmp/status && [ $(grep -o '\"counted\": *true' /tmp/status | wc -l) -ge 2 ] && grep -q '\"healthy\": *true' /tmp/status && grep -q '\"slot\": *[0-9]' /tmp/status",
		idle:    `"msg":"decision"`,
		told: func(text string) string {
			if !strings.Contains(text, `"msg":"node is dead as it was"`) || !strings.Contains(text, `"fenced":true`) {
				return ""
			}
			return between(text, `"peer":"`, `"`)
		},
	}
}

// isIdle says whether a line tells that the machine is idle.
func (s *system) isIdle(text string) bool {
	return strings.Contains(text, s.idle) && (len(s.version) > 0 || strings.Contains(text, `"quorum":false`))
}

// quorum is what the table calls the loss of it.
func (s *system) quorum() string {
	if len(s.version) > 0 {
		return "corosync below it: quorum lost"
	}
	return "its quorum, lost"
}

// between is what stands in text after one mark and before the next.
func between(text, from, to string) string {
	_, rest, ok := strings.Cut(text, from)
	found, _, closed := strings.Cut(rest, to)
	if !ok || !closed {
		return ""
	}
	return found
}

func agentConfig(timing string, id int) map[string]any {
	var members, systemNetworks []map[string]any
	for i, name := range names {
		addresses := map[string]string{}
		for j, network := range networks {
			addresses[network] = address(j+1, i+1)
		}
		members = append(members, map[string]any{"name": name, "addresses": addresses})
	}
	for j, network := range networks {
		systemNetworks = append(systemNetworks, map[string]any{"name": network, "at": fmt.Sprintf("vec%d", j)})
	}
	return map[string]any{
		"cluster": "lab", "nodeName": names[id-1], "nodeGroup": "worker", "timing": timing,
		"members":        map[string]any{"source": "static", "static": members, "cacheFile": "/var/lib/fencing-agent/members.json"},
		"systemNetworks": systemNetworks,
		"reachability":   "any",
		"quorum":         map[string]any{"tieBreak": "lun"},
		"lun":            map[string]any{"devices": []string{"/dev/ubda"}},
		"watchdog":       map[string]any{"device": "/dev/watchdog", "disableFile": "/run/disable"},
		"api":            map[string]any{"socket": "/run/agent.sock"},
		"http":           map[string]any{"address": ""},
	}
}

// corosyncConf is corosync as it is by default, with two links.
func corosyncConf() string {
	var b strings.Builder
	b.WriteString("totem {\n  version: 2\n  cluster_name: lab\n  transport: knet\n}\nquorum {\n  provider: corosync_votequorum\n}\n" +
		"logging {\n  to_stderr: yes\n  to_syslog: no\n}\nnodelist {\n")
	for i, name := range names {
		fmt.Fprintf(&b, "  node {\n    name: %s\n    nodeid: %d\n    ring0_addr: %s\n    ring1_addr: %s\n  }\n", name, i+1, address(1, i+1), address(2, i+1))
	}
	b.WriteString("}\n")
	return b.String()
}

func corosyncFiles(int) (map[string]string, error) {
	return map[string]string{
		"corosync/corosync.conf": corosyncConf(),
		"passwd":                 "root:x:0:0:root:/root:/bin/sh\nhacluster:x:189:189::/:/bin/sh\n",
		"group":                  "root:x:0:\nhaclient:x:189:\n",
		"nsswitch.conf":          "passwd: files\ngroup: files\nhosts: files\n",
		"hosts":                  "127.0.0.1 localhost\n",
	}, nil
}

const (
	corosyncHasAll = "corosync-quorumtool -s > /tmp/quorum; grep -q 'Total votes: *3' /tmp/quorum && grep -q 'Quorate: *Yes' /tmp/quorum"
	createSlots    = "sbd -d /dev/ubda create"
	syslog         = "syslogd -n -O - &\nuntil [ -S /dev/log ]; do sleep 0.2; done\n"
	awaitSlots     = "until sbd -d /dev/ubda dump > /dev/null 2>&1; do sleep 1; done\n"
	armed          = "[ -e /run/work ] && pidof sbd > /dev/null"
)

func fencedBySbd(text string) string {
	_, victim, _ := strings.Cut(text, "lab: fenced ")
	return victim
}

// pacemaker is Pacemaker as it is by default, with sbd on the LUN for its fencing, and one program on each node.
var pacemaker = &system{
	name: "Pacemaker and sbd", version: []string{"pacemaker", "sbd", "corosync"},
	etc:     pacemakerFiles,
	prepare: createSlots,
	service: syslog + awaitSlots + pacemakerFolders + "corosync -f 2>&1 &\nexport SBD_SYNC_RESOURCE_STARTUP=no SBD_PACEMAKER=yes\n" +
		"until sbd -v -d /dev/ubda -w /dev/watchdog -n $NODE_NAME watch; do sleep 2; done\nexec pacemakerd 2>&1\n",
	ready: corosyncHasAll + " && " + armed + " && sbd -d /dev/ubda list | grep -q $NODE_NAME.clear",
	idle:  "This node is within the non-primary component", // by corosync, which resets nobody
	told:  fencedBySbd,
}

func pacemakerFiles(id int) (map[string]string, error) {
	files, err := corosyncFiles(id)
	files["cib.xml"] = cib
	return files, err
}

// cib is how Pacemaker begins: a fence device and a program on each node.
const cib = `<cib crm_feature_set="3.1.0" validate-with="pacemaker-3.9" admin_epoch="1" epoch="1" num_updates="0">
  <configuration>
    <crm_config/>
    <nodes/>
    <resources>
      <primitive id="fence" class="stonith" type="fence_sbd"/>
      <clone id="works"><primitive id="work" class="ocf" provider="lab" type="work"/></clone>
    </resources>
    <constraints/>
  </configuration>
  <status/>
</cib>
`

const pacemakerFolders = `mkdir -p /var/lib/corosync /run/crm /run/resource-agents /var/log/pacemaker /var/lib/pacemaker/cib
mkdir -p /var/lib/pacemaker/cores /var/lib/pacemaker/pengine /var/lib/pacemaker/blackbox
cp /etc/cib.xml /var/lib/pacemaker/cib/cib.xml
chown -R 189:189 /var/lib/pacemaker /var/log/pacemaker /run/crm
`

// workAgent is the program, which does nothing but say so.
const workAgent = `#!/bin/sh
case $1 in
start) touch /run/work; echo "lab: work started" > /dev/console ;;
stop) rm -f /run/work; echo "lab: work stopped" > /dev/console ;;
monitor) [ -e /run/work ] || exit 7 ;;
meta-data) echo '<?xml version="1.0"?>
<resource-agent name="work"><version>1.0</version><shortdesc lang="en">work</shortdesc><longdesc lang="en">work</longdesc><parameters/>
<actions><action name="start" timeout="20s"/><action name="stop" timeout="20s"/><action name="monitor" timeout="20s" interval="10s"/><action name="meta-data" timeout="5s"/></actions>
</resource-agent>' ;;
esac
`

// fenceAgent does what Debian's does, which wants Python: sbd returns when the message counts as delivered.
const fenceAgent = `#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
while read -r line; do
  case "$line" in
  action=*) action=${line#*=} ;;
  plug=*|port=*) plug=${line#*=} ;;
  esac
done
case $action in
metadata) echo '<?xml version="1.0"?>
<resource-agent name="fence_sbd" shortdesc="sbd"><longdesc>sbd</longdesc>
<parameters><parameter name="plug" unique="0" required="1"><getopt mixed="-n"/><content type="string"/><shortdesc lang="en">node</shortdesc></parameter></parameters>
<actions><action name="off"/><action name="reboot"/><action name="status"/><action name="monitor"/><action name="list"/><action name="metadata"/></actions>
</resource-agent>' ;;
list) printf '%s,\n' n1 n2 n3 ;;
off|reboot) echo "lab: fencing $plug" > /dev/console; sbd -d /dev/ubda message $plug reset && echo "lab: fenced $plug" > /dev/console ;;
esac
`
