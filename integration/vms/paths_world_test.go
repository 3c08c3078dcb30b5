package vms

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/vms/image"
)

const (
	san2       = "san2" // the second network of the LUN
	subsystem  = "nqn.2024-01.test.lab:lun"
	nvmeUUID   = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	pathMemory = 384 // MB of memory of a node with udev and multipathd
)

// sans names the networks of the LUN; portals contains the storage's addresses on them.
var (
	sans    = []string{san, san2}
	portals = []string{address(3, 100), address(4, 100)}
)

// pathPackages are Debian's packages with the programs that join the paths of a LUN.
var pathPackages = []string{"multipath-tools", "udev", "dmsetup", "nvme-cli"}

// pathRules are the udev rules of these packages that a LUN needs.
var pathRules = []string{
	"50-udev-default.rules", "55-dm.rules", "56-dm-mpath.rules", "60-block.rules", "60-multipath.rules", "60-persistent-storage.rules",
	"60-persistent-storage-dm.rules", "95-dm-notify.rules",
}

// pathsCrew returns nodes with two paths to each of two LUNs, one by iSCSI and one by NVMe.
func pathsCrew(tree string, count int) (crew, error) {
	extra, err := pathPrograms(tree)
	return crew{
		nodes: nodesNamed(count), megabytes: pathMemory, luns: 2, extra: []image.Extra{extra},
		lun: func(path string) error { return initLUN(path, 4) },
		disk: func(root string) error {
			if err := agentDisk(root); err != nil {
				return err
			}
			return os.Link(filepath.Join(built.programs, "holder"), filepath.Join(root, "bin", "holder"))
		},
		storage: func() image.Machine {
			m := storageMachine(nodesNamed(count))
			m.Boot.Interfaces = append(m.Boot.Interfaces, card(4, 100, san2))
			m.Modules = append(m.Modules, named("nvmet", "nvmet_tcp")...)
			return m
		},
		node: func(i int) (image.Machine, error) {
			m := nodeMachine(i)
			m.Boot.Initiator = nil
			m.Boot.Interfaces = append(m.Boot.Interfaces, card(4, i+1, san2))
			m.Modules = append(m.Modules, named("dm_multipath", "dm_service_time", "nvme_tcp")...)
			return m, nil
		},
	}, err
}

// pathPrograms returns the programs, rules and plugins of the packages, and the files of deploy/node for a LUN.
func pathPrograms(tree string) (image.Extra, error) {
	e := image.Extra{Tree: tree, Programs: map[string]string{
		"/sbin/multipathd": "sbin/multipathd", "/sbin/multipath": "sbin/multipath", "/sbin/dmsetup": "sbin/dmsetup", "/bin/udevadm": "bin/udevadm",
		"/lib/systemd/systemd-udevd": "bin/udevadm", "/lib/udev/scsi_id": "lib/udev/scsi_id", "/sbin/nvme": "usr/sbin/nvme",
		"/lib/x86_64-linux-gnu/libgcc_s.so.1": "lib/x86_64-linux-gnu/libgcc_s.so.1", // loaded when a thread ends
	}, Files: map[string]string{
		"/usr/share/iscsid.conf": filepath.Join(built.tree, "etc/iscsi/iscsid.conf"),
		"/usr/share/multipath":   "../../deploy/node/multipath/fencing-agent.conf",
		"/usr/share/rules":       "../../deploy/node/udev/90-fencing-agent.rules",
	}}
	plugins, err := filepath.Glob(filepath.Join(tree, "lib/multipath/*.so"))
	if err != nil || len(plugins) == 0 {
		return e, fmt.Errorf("no plugins of multipathd below %s: %w", tree, err)
	}
	for _, p := range plugins {
		e.Programs["/lib/multipath/"+filepath.Base(p)] = "lib/multipath/" + filepath.Base(p)
	}
	for _, name := range pathRules {
		e.Files["/lib/udev/rules.d/"+name] = filepath.Join(tree, "lib/udev/rules.d", name)
	}
	return e, nil
}

// offerAll makes the storage offer its first disk at a second portal too, and its second disk by NVMe at both.
func (s *story) offerAll() {
	s.holds("the storage offers its LUN", "[ -d /sys/kernel/config/target/iscsi/"+targetName+"/tpgt_1/np ]", storage)
	script := "set -e; mkdir /sys/kernel/config/target/iscsi/" + targetName + "/tpgt_1/np/" + portals[1] + ":3260; cd /sys/kernel/config/nvmet; s=subsystems/" + subsystem + `
mkdir $s; echo 1 > $s/attr_allow_any_host; mkdir $s/namespaces/1; echo -n /dev/vdb > $s/namespaces/1/device_path
echo ` + nvmeUUID + ` > $s/namespaces/1/device_uuid; echo 1 > $s/namespaces/1/enable
`
	for i, portal := range portals {
		script += fmt.Sprintf("p=ports/%d; mkdir $p; echo tcp > $p/addr_trtype; echo ipv4 > $p/addr_adrfam; echo %s > $p/addr_traddr; echo 4420 > $p/addr_trsvcid; "+
			"ln -s /sys/kernel/config/nvmet/$s $p/subsystems/%s\n", i+1, portal, subsystem)
	}
	s.run(storage, script)
}

// startUdev starts what a distribution starts at boot. With advised, iscsid.conf is edited as docs/operations.md
// advises.
func (s *story) startUdev(node string, advised bool) {
	script := `set -e
echo InitiatorName=` + initiator(node) + ` > /etc/iscsi/initiatorname.iscsi
mkdir -p /etc/udev/rules.d /etc/multipath/conf.d /etc/nvme /run/udev
cp /usr/share/iscsid.conf /etc/iscsi/iscsid.conf
`
	for _, setting := range []string{"session.timeo.replacement_timeout = 1", "conn[0].timeo.noop_out_interval = 1", "conn[0].timeo.noop_out_timeout = 2"} {
		if key, _, _ := strings.Cut(setting, " "); advised {
			key = strings.NewReplacer("[", `\[`, "]", `\]`).Replace(key)
			script += "sed -i 's/^node." + key + " = .*/node." + setting + "/' /etc/iscsi/iscsid.conf; grep -q '^node." + key + "' /etc/iscsi/iscsid.conf\n"
		}
	}
	s.run(node, script+`/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add; udevadm settle
iscsid; multipathd -d > /tmp/multipathd 2>&1 &`)
	s.holds("multipathd answers", "multipathd show daemon || { cat /tmp/multipathd; exit 1; }", node)
}

// advise installs the files of deploy/node, edited as their comments say.
func (s *story) advise(node, wwid string) {
	edit := "sed -e 's/WWID-OF-THE-LUN/" + wwid + "/; s/NQN-OF-THE-LUN/" + subsystem + "/' "
	s.run(node, edit+"/usr/share/rules > /etc/udev/rules.d/90-fencing-agent.rules; "+edit+`/usr/share/multipath > /etc/multipath/conf.d/fencing-agent.conf
udevadm control --reload && udevadm trigger --action=change && udevadm settle`)
}

// logins attaches the LUN at both portals by iSCSI.
func (s *story) logins(node string) {
	for _, portal := range portals {
		at := " -T " + targetName + " -p " + portal + ":3260 "
		s.run(node, "iscsiadm -m node -o new"+at+"&& iscsiadm -m node"+at+"--login")
	}
	s.holds("both iSCSI paths are there", "[ -b /dev/sda ] && [ -b /dev/sdb ] && udevadm settle", node)
}

// wwid returns multipathd's name of the LUN.
func (s *story) wwid(node string) string {
	naa, ok := strings.CutPrefix(strings.TrimSpace(s.run(node, "cat /sys/block/sda/device/wwid")), "naa.")
	if !ok {
		s.t.Fatal("the LUN has no NAA name")
	}
	return "3" + naa
}

// connects attaches the namespace at both ports by NVMe.
func (s *story) connects(node string, advised bool) {
	for _, portal := range portals {
		script := "nvme connect -t tcp -a " + portal + " -s 4420 -n " + subsystem + " --hostnqn=nqn.2014-08.org.nvmexpress:uuid:" + nvmeUUID
		if advised {
			script += " --keep-alive-tmo=1 --reconnect-delay=2 --ctrl-loss-tmo=-1"
		}
		s.run(node, script)
	}
	s.holds("both NVMe paths are there", "[ -b /dev/disk/by-id/nvme-uuid."+nvmeUUID+" ] && [ -d /sys/class/nvme/nvme1 ] && udevadm settle", node)
}

// busiest returns the network that carries most reads.
func (s *story) busiest(node string) string {
	count := "for n in " + strings.Join(sans, " ") + "; do cat /sys/class/net/$n/statistics/rx_bytes; done"
	var a, b, c, d int
	if _, err := fmt.Sscan(s.run(node, count+"; sleep 3; "+count), &a, &b, &c, &d); err != nil {
		s.t.Fatal(err)
	}
	if d-b > c-a {
		return san2
	}
	return san
}

// reads returns the lines of the reader since a mark, and the next mark.
func (s *story) reads(node string, mark int) (lines []string, next int) {
	all := strings.Split(strings.TrimSpace(s.run(node, "cat /tmp/reads")), "\n")
	all = slices.DeleteFunc(all, func(line string) bool { return line == "" })
	return all[min(mark, len(all)):], len(all)
}

// holds waits for at most a minute until a script succeeds on a machine.
func (s *story) holds(what, script, on string) {
	s.t.Helper()
	s.eventually(time.Now().Add(time.Minute), what, func() string {
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
		defer cancel()
		if out, err := s.machines[on].Run(ctx, script); err != nil {
			return fmt.Sprintf("not on %s: %s", on, out)
		}
		return ""
	})
	s.logf("%s", what)
}
