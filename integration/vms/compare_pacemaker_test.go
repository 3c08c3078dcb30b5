package vms

import (
	"os"
	"path/filepath"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/vms/control"
	"github.com/fencing-agent/fencing-agent/integration/vms/image"
)

// pacemaker is Pacemaker with its defaults, with sbd for fencing and one program that it runs on each node. A node is
// idle when that program was stopped, which is what Pacemaker does without quorum.
var pacemaker = &contender{
	name: "Pacemaker", beside: "sbd",
	packages: []string{"pacemaker", "pacemaker-common", "pacemaker-cli-utils", "corosync", "sbd"},
	programs: []string{
		"sbd", "corosync", "corosync-quorumtool", "pacemakerd", "crm_mon", "crm_node", "../lib/pacemaker/pacemaker-attrd", "../lib/pacemaker/pacemaker-based",
		"../lib/pacemaker/pacemaker-controld", "../lib/pacemaker/pacemaker-execd", "../lib/pacemaker/pacemaker-fenced", "../lib/pacemaker/pacemaker-schedulerd",
	},
	faults: withCuts(silent),
	voice: voice{
		idle: saying("work stopped"), quorum: saying("work started"),
		back: func(s *story, node string, after time.Time) (time.Time, bool) {
			member, ok := corosyncVoice.back(s, node, after)
			works, started := s.said(node, after, "work started")
			return latest(member, works), ok && started
		},
	},
	crew:    pacemakerCrew,
	prepare: sbd.prepare,
	ready: func(s *story) {
		sbd.ready(s)
		s.settled("the program runs on all", "[ -e /run/work ]", nodes...)
	},
	told: sbdTold,
}

func pacemakerCrew(c *contender) (crew, error) {
	members, err := peerCrew(c, sharedMemory+pacemakerScript, func(i int) map[string]string {
		files := corosyncFiles(i)
		files["/etc/passwd"] = "root:x:0:0:root:/:/bin/sh\nhacluster:x:189:189::/:/bin/sh\n"
		files["/etc/group"] = "root:x:0:\nhaclient:x:189:\n"
		files["/var/lib/pacemaker/cib/cib.xml"] = pacemakerResources
		files["/usr/lib/ocf/resource.d/lab/work"] = workAgent
		files["/usr/sbin/fence_sbd"] = fenceAgent
		return files
	})
	members.megabytes = 2 * peerMegabytes
	members.disk = func(root string) error {
		if err := image.Install(c.tree, root, c.programs...); err != nil {
			return err
		}
		return os.CopyFS(filepath.Join(root, "share"), os.DirFS(filepath.Join(c.tree, "usr", "share", "pacemaker")))
	}
	return members, err
}

// pacemakerResources is Pacemaker's first configuration: only a fence device, and a program on each node.
const pacemakerResources = `<cib crm_feature_set="3.1.0" validate-with="pacemaker-3.9" admin_epoch="1" epoch="1" num_updates="0">
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

const pacemakerScript = awaitDisk + `chmod +x /usr/sbin/fence_sbd /usr/lib/ocf/resource.d/lab/work
mkdir -p /usr/share /run/crm /run/resource-agents /var/log/pacemaker /var/lib/pacemaker/cores /var/lib/pacemaker/pengine /var/lib/pacemaker/blackbox
ln -s ` + control.DiskMount + `/lib/pacemaker /usr/lib/pacemaker
ln -s ` + control.DiskMount + `/share /usr/share/pacemaker
chown -R 189:189 /var/lib/pacemaker /var/log/pacemaker /run/crm
busybox syslogd -n -O - &
until [ -S /dev/log ] && sbd -d /dev/sda dump > /dev/null 2>&1; do sleep 1; done
corosync -f 2>&1 &
export SBD_SYNC_RESOURCE_STARTUP=no SBD_PACEMAKER=yes
until sbd -v -d /dev/sda -w /dev/watchdog -n $NODE_NAME watch; do sleep 2; done
exec pacemakerd
`

// workAgent is the resource agent of that program, which does nothing but log that it runs.
const workAgent = `#!/bin/sh
case $1 in
start) touch /run/work; echo "work started" > /dev/console ;;
stop) rm -f /run/work; echo "work stopped" > /dev/console ;;
monitor) [ -e /run/work ] || exit 7 ;;
meta-data) echo '<?xml version="1.0"?>
<resource-agent name="work"><version>1.0</version><shortdesc lang="en">work</shortdesc><longdesc lang="en">work</longdesc><parameters/>
<actions><action name="start" timeout="20s"/><action name="stop" timeout="20s"/><action name="monitor" timeout="20s" interval="10s"/><action name="meta-data" timeout="5s"/></actions>
</resource-agent>' ;;
esac
`

// fenceAgent does the same as Debian's agent, which needs Python: sbd returns when the message counts as delivered.
const fenceAgent = `#!/bin/sh
` + peerShell + `while read -r line; do
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
list) printf '%s,\n' n1 n2 n3 n4 ;;
off|reboot) echo "fencing $plug" > /dev/console; sbd -d /dev/sda message $plug reset && echo "fenced $plug" > /dev/console ;;
esac
`
