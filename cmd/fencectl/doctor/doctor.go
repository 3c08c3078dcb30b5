package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip/keyfile"
	"github.com/fencing-agent/fencing-agent/procfs"
)

// Level is how bad a finding is.
type Level string

const (
	OK    Level = "ok"
	Warn  Level = "warn"
	Wrong Level = "wrong"
)

// Finding is one line of the output.
type Finding struct {
	Level   Level  `json:"level"`
	Subject string `json:"subject"`
	Found   string `json:"found"`
	Do      string `json:"do,omitempty"` // what to do about it
}

// noStart begins the remedy of a finding that keeps the agent from starting.
const noStart = "the agent does not start"

// Ends reports whether the finding keeps the agent from starting.
func (f Finding) Ends() bool { return f.Level == Wrong && strings.HasPrefix(f.Do, noStart) }

// Format is the content of a LUN's superblock.
type Format struct {
	Cluster, NodeGroup string
	Slots              int
	ReadOnly           bool
	Damaged            []string // its damaged copies, in words
	Set                string   // identity of the set of three to which the device belongs; empty: no set
	Place, Of          int      // place in the set; 1 of 1 for a device outside of any set
}

// Machine is the machine to look at.
type Machine struct {
	Root         string                              // of the file system; empty: the machine's own
	Config       *config.Config                      // nil: checks that need a configuration are left out
	FormattedFor func(device string) (Format, error) // reads for which group a LUN of this machine is formatted
	// Paths lists what is wrong with the way to a LUN, of which it opens nothing; nil: this is not looked at.
	Paths func(root, device string) ([]Finding, error)

	writes func(folder string) error // nil if this process may write there; nil: access(2) is asked
}

// OutsideOfCore is the name of a watchdog whose driver does not use the kernel's watchdog core, and shows nothing in sysfs.
const OutsideOfCore = "watchdog"

// Watchdog is one device as sysfs shows it.
type Watchdog struct {
	Name     string   `json:"name"` // such as watchdog0, or OutsideOfCore
	Identity string   `json:"identity"`
	State    string   `json:"state"`   // active, inactive, or empty if the kernel does not show it
	Timeout  string   `json:"timeout"` // seconds
	NoWayOut bool     `json:"nowayout"`
	Holders  []string `json:"holders,omitempty"` // "name (pid)"
}

func (m *Machine) read(name string) (text string, err error) {
	data, err := os.ReadFile(filepath.Join(m.Root, name))
	return strings.TrimSpace(string(data)), err
}

func (m *Machine) glob(pattern string) (names []string) {
	found, _ := filepath.Glob(filepath.Join(m.Root, pattern)) // the patterns are valid
	for _, f := range found {
		names = append(names, strings.TrimPrefix(f, filepath.Clean(m.Root+"/")))
	}
	for i, n := range names {
		names[i] = path.Clean("/" + n)
	}
	slices.Sort(names)
	return names
}

// Watchdogs lists the devices.
func (m *Machine) Watchdogs() (list []Watchdog) {
	holders := m.holders()
	for _, dir := range m.glob("/sys/class/watchdog/watchdog*") {
		w := Watchdog{Name: path.Base(dir)}
		w.Identity, _ = m.read(dir + "/identity") // not every kernel has this file
		w.State, _ = m.read(dir + "/state")
		w.Timeout, _ = m.read(dir + "/timeout")
		text, _ := m.read(dir + "/nowayout")
		w.NoWayOut = text == "1"
		w.Holders = holders["/dev/"+w.Name]
		if w.Name == "watchdog0" {
			w.Holders = append(w.Holders, holders["/dev/watchdog"]...)
		}
		list = append(list, w)
	}
	if old, found := m.outsideOfCore(); found && len(list) == 0 {
		old.Holders = holders["/dev/watchdog"]
		list = append(list, old)
	}
	return list
}

// outsideOfCore finds the watchdog of a driver that does not use the kernel's watchdog core, such as ipmi_watchdog and
// ib700wdt: it has /dev/watchdog, and nothing below /sys/class/watchdog. A device node that was created by hand has no
// driver.
func (m *Machine) outsideOfCore() (w Watchdog, found bool) {
	for _, name := range []string{"/dev/watchdog", "/sys/class/misc/watchdog"} {
		if _, err := os.Stat(filepath.Join(m.Root, name)); err != nil {
			return w, false
		}
	}
	w.Name = OutsideOfCore
	_, w.Identity = m.outsider()
	return w, true
}

// outsider is a module that is loaded whose driver does not use the watchdog core, and what the driver calls itself.
func (m *Machine) outsider() (module, identity string) {
	for _, known := range [][2]string{{"ipmi_watchdog", "IPMI"}, {"ib700wdt", "IB700 WDT"}} {
		if _, err := os.Stat(filepath.Join(m.Root, "/sys/module", known[0])); err == nil {
			return known[0], known[1]
		}
	}
	return "", ""
}

// twoForOne warns of a driver that may have taken /dev/watchdog from those that sysfs shows, or may not have got it.
func (m *Machine) twoForOne(listed []Watchdog) (out []Finding) {
	module, _ := m.outsider()
	if module == "" || listed[0].Name == OutsideOfCore || m.Config != nil && m.Config.Watchdog.Device != "/dev/watchdog" {
		return nil
	}
	return []Finding{{Warn, OutsideOfCore, fmt.Sprintf("%s is loaded beside %s: /dev/watchdog belongs to the one that was loaded first, and nothing shows which that is", module, listed[0].Name),
		fmt.Sprintf("set watchdog.device to /dev/%s, or load only one of the two", listed[0].Name)}}
}

// holders returns the processes that have a watchdog open, by its path.
func (m *Machine) holders() map[string][]string {
	out := map[string][]string{}
	for _, fd := range m.glob("/proc/[0-9]*/fd/*") {
		to, err := os.Readlink(filepath.Join(m.Root, fd))
		if err != nil || !strings.HasPrefix(to, "/dev/watchdog") {
			continue
		}
		pid := strings.Split(fd, "/")[2]
		comm, _ := m.read("/proc/" + pid + "/comm")
		if who := cmp.Or(comm, "a process") + " (" + pid + ")"; !slices.Contains(out[to], who) {
			out[to] = append(out[to], who)
		}
	}
	return out
}

// Look returns all findings, the most important first.
func (m *Machine) Look() (out []Finding) {
	out = append(out, m.watchdogs()...)
	out = append(out, m.systemd())
	if m.Config == nil {
		return out
	}
	out = append(out, m.keys()...)
	out = append(out, m.networks()...)
	if m.here() {
		out = append(out, m.Parts()...)
	}
	out = append(out, m.storage()...)
	return out
}

// storeHolder keeps a copy of the agent's descriptor (FileDescriptorStoreMax= of its unit). It does not feed the
// watchdog.
const storeHolder = "systemd (1)"

func (m *Machine) watchdogs() (out []Finding) {
	list := m.Watchdogs()
	if len(list) == 0 {
		level := Wrong
		if m.Config != nil && m.Config.Watchdog.Driver == config.DriverNone {
			level = Warn // a dry run needs no watchdog until the driver is set
		}
		return []Finding{{level, "watchdog", "there is none in /sys/class/watchdog, and /dev/watchdog has no driver", "load the driver of the board (ipmi_watchdog, iTCO_wdt, hpwdt, sp5100_tco) or, for want of one, softdog; see deploy/node"}}
	}
	feeds := m.systemd().Level != OK
	known := slices.ContainsFunc(list, m.uses) // else the configuration has a link to one of them
	for _, w := range list {
		f := Finding{OK, w.Name, fmt.Sprintf("%s, timeout %s s", cmp.Or(w.Identity, "no identity"), cmp.Or(w.Timeout, "?")), ""}
		seconds, _ := strconv.Atoi(w.Timeout) // 0: unknown
		tried, found, do := m.tried(w, time.Duration(seconds)*time.Second)
		f.Found += found
		if known && !m.uses(w) && tried == Wrong {
			tried, do = OK, "" // the agent uses another one
		}
		foreign := slices.DeleteFunc(slices.Clone(w.Holders), func(h string) bool {
			return strings.HasPrefix(h, "fencing-agent ") || h == storeHolder && !feeds
		})
		switch {
		case len(foreign) > 0:
			f.Level, f.Do = Wrong, "two programs cannot feed one watchdog, and a node whose watchdog another program feeds is not reset: stop "+strings.Join(foreign, ", ")+", or give the agent another device (watchdog.device)"
			f.Found += ", held by " + strings.Join(w.Holders, ", ")
		case len(w.Holders) == 1 && w.Holders[0] == storeHolder:
			f.Level, f.Do = Warn, "start the agent, or the machine will be reset; if no agent was killed here, systemd feeds it: look for RuntimeWatchdogSec= in all its files, and for systemd.watchdog_sec= on the kernel's command line"
			f.Found += ", held by " + storeHolder + ", which keeps it for an agent that was killed: nobody feeds it"
		case len(w.Holders) > 0:
			f.Found += ", held by " + strings.Join(w.Holders, ", ")
		case w.State == "active":
			f.Level, f.Found, f.Do = Warn, f.Found+", it counts down and nobody holds it", "a killed agent leaves its watchdog in this state, and the machine will be reset: start the agent"
		}
		if w.NoWayOut {
			f.Found += ", nowayout"
			if f.Level == OK {
				f.Level, f.Do = Warn, "it cannot be disarmed once it is armed: maintenance and a stop of the agent reset the node; unset nowayout of the driver if that is not meant"
			}
		}
		if strings.Contains(strings.ToLower(w.Identity), "software watchdog") && f.Level == OK {
			f.Level, f.Do = Warn, "softdog does not fire when the kernel hangs: use the board's own watchdog where there is one"
		}
		if w.Name == OutsideOfCore && f.Level == OK {
			f.Level, f.Do = Warn, "the agent can use this watchdog, and learns its timeout by arming it; before that, nobody can see whether it counts down, so a starting agent counts nobody for some seconds, and no node with such a watchdog announces when it is dead: prefer a driver that is in /sys/class/watchdog"
		}
		if tried == Wrong && f.Level != Wrong || f.Level == OK {
			f.Level, f.Do = tried, do
		}
		out = append(out, f)
	}
	return append(out, m.twoForOne(list)...)
}

// uses reports whether the configuration names this watchdog; any, if there is no configuration.
func (m *Machine) uses(w Watchdog) bool {
	if m.Config == nil || m.Config.Watchdog.Device == "" {
		return true
	}
	device := m.Config.Watchdog.Device
	if name, by := strings.CutPrefix(device, "identity:"); by {
		return w.Identity == name
	}
	return device == "/dev/"+w.Name || device == "/dev/watchdog" && w.Name == "watchdog0"
}

// systemd looks whether systemd feeds a watchdog itself.
func (m *Machine) systemd() Finding {
	value, from := "", ""
	files := append([]string{"/etc/systemd/system.conf"}, m.glob("/etc/systemd/system.conf.d/*.conf")...)
	for _, name := range files {
		text, err := m.read(name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(text) {
			if key, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.TrimSpace(key) == "RuntimeWatchdogSec" {
				value, from = strings.TrimSpace(v), name
			}
		}
	}
	if value == "" || value == "off" || value == "0" || value == "0s" {
		return Finding{OK, "systemd", "it feeds no watchdog", ""}
	}
	return Finding{Wrong, "systemd", "RuntimeWatchdogSec=" + value + " in " + from, "set RuntimeWatchdogSec=off and run systemctl daemon-reexec: pid 1 would keep the machine alive that the agent wants reset"}
}

// keys checks the file, and shows nothing of its content.
func (m *Machine) keys() []Finding {
	const subject = "keys"
	file := m.Config.Gossip.KeyFile
	if file == "" {
		return []Finding{{Warn, subject, "gossip.keyFile is not set: nothing is encrypted or authenticated", "make one: head -c 32 /dev/urandom | base64, and put it on all nodes"}}
	}
	at := filepath.Join(m.Root, file)
	_, mode, err := keyfile.Read(at)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return []Finding{{Warn, subject, file + " may not be read, and whether it holds keys cannot be told", "run this as root"}}
	case err != nil:
		return []Finding{{Wrong, subject, strings.Replace(err.Error(), at, file, 1), "put the group's key file there; the agent does not start without it"}}
	case keyfile.Open(mode):
		return []Finding{{Wrong, subject, fmt.Sprintf("%s has mode %04o: others can read it", file, mode), "chmod 600 " + file}}
	}
	return []Finding{{OK, subject, file + " is readable by its owner alone", ""}}
}

// cause is the error without the path, which may be below a test's root.
func cause(err error) string {
	if e, ok := err.(*fs.PathError); ok { //nolint:errorlint // os.Stat returns it as it is
		return e.Err.Error()
	}
	return err.Error()
}

// networks looks at the networks that the configuration names, if the parts of the agent cannot be looked at.
func (m *Machine) networks() (out []Finding) {
	if m.here() {
		return nil // Parts checks them, by the address that the agent uses
	}
	var ports []int
	for _, n := range m.Config.SystemNetworks {
		if ports = append(ports, n.Port); n.At.Interface != "" {
			out = append(out, m.link(n.At.Interface))
		}
	}
	slices.Sort(ports)
	for _, port := range slices.Compact(ports) {
		out = append(out, m.port("port "+strconv.Itoa(port), netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(port))))
	}
	return out
}

// here reports whether sockets, networks and devices are those of this machine.
func (m *Machine) here() bool { return filepath.Clean("/"+m.Root) == "/" }

// link looks at an interface.
func (m *Machine) link(name string) Finding {
	state, err := m.read("/sys/class/net/" + name + "/operstate")
	switch {
	case err != nil:
		return Finding{Wrong, "network " + name, "there is no such interface", "correct systemNetworks[].at"}
	case state != "up" && state != "unknown":
		return Finding{Wrong, "network " + name, "its state is " + state, "bring it up: peers are not heard there"}
	}
	return Finding{OK, "network " + name, "up", ""}
}

// agentProgram is the name under which the kernel knows an agent.
const agentProgram = "fencing-agent"

// port finds out who has an address and port that the agent wants. Only the agent may.
func (m *Machine) port(subject string, at netip.AddrPort) Finding {
	who, taken := procfs.Binds(filepath.Join(m.Root, "/proc"), at)
	switch {
	case !taken:
		return Finding{OK, subject, "nobody listens yet", ""}
	case who.Name == agentProgram:
		return Finding{OK, subject, "the agent listens", ""}
	case who.PID == 0:
		return Finding{Warn, subject, "somebody listens, " + who.String(), "run this as root, in the node's PID namespace; only the agent may"}
	}
	return Finding{Wrong, subject, who.String() + " listens", "the agent runs without this port until it is free: give one of the two programs another address or port"}
}

// AgentRuns reports whether there is a process with the agent's name.
func (m *Machine) AgentRuns() bool {
	return slices.ContainsFunc(m.glob("/proc/[0-9]*/comm"), func(name string) bool {
		comm, _ := m.read(name)
		return comm == agentProgram
	})
}

// find looks for a device of lun.devices. A device that is named by its WWN has one of two links, with or without
// multipath.
func (m *Machine) find(device string) (err error) {
	paths := []string{device}
	if name, ok := strings.CutPrefix(device, "wwn:"); ok {
		name = strings.TrimPrefix(strings.ToLower(name), "0x")
		paths = []string{"/dev/disk/by-id/dm-uuid-mpath-3" + name, "/dev/disk/by-id/wwn-0x" + name}
		if strings.Contains(name, ".") { // of an NVMe namespace
			paths = []string{"/dev/disk/by-id/dm-uuid-mpath-" + name, "/dev/disk/by-id/nvme-" + name}
		}
	}
	for _, p := range paths {
		if _, err = os.Stat(filepath.Join(m.Root, p)); err == nil {
			return nil
		}
	}
	return err
}

// lunLater describes what the agent does while a LUN is missing, or not usable yet.
const lunLater = "the agent runs without the LUN, and takes part in no tie-break, until the LUN can be used"

// lun compares an existing LUN with the configuration, as the agent does when it starts.
func (m *Machine) lun(device string) Finding {
	if !m.here() {
		return Finding{OK, "LUN", device + " is there", ""}
	}
	c := m.Config
	f, err := m.FormattedFor(device)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return Finding{Warn, "LUN", device + " is there, but it cannot be read for which cluster it is formatted: " + cause(err), "run this as root"}
	case err != nil:
		return Finding{Wrong, "LUN", device + " cannot be used: " + cause(err), lunLater + "; the agent refuses to start only if it does not know the kind of device or format; see fencectl lun inspect"}
	case f.Cluster != c.Cluster || f.NodeGroup != c.NodeGroup:
		return Finding{Wrong, "LUN", fmt.Sprintf("%s is formatted for cluster %q, node group %q, and the configuration is for cluster %q, node group %q", device, f.Cluster, f.NodeGroup, c.Cluster, c.NodeGroup),
			"correct lun.devices, cluster or nodeGroup: the agent exits with this error"}
	case f.Slots < len(c.Members.Static):
		return Finding{Wrong, "LUN", fmt.Sprintf("%s has %d slots for %d members", device, f.Slots, len(c.Members.Static)),
			"format it with more --slots: the agent exits with this error"}
	case f.ReadOnly:
		return Finding{Wrong, "LUN", device + " is read-only", "map it read-write to this node; " + lunLater}
	case len(f.Damaged) > 0:
		return Finding{Warn, "LUN", device + " is damaged: " + strings.Join(f.Damaged, ", "),
			"the agents use the other copy; find out who wrote there, then restore it with fencectl lun repair restore-superblock"}
	}
	return Finding{OK, "LUN", fmt.Sprintf("%s is there, of cluster %s, node group %s", device, f.Cluster, f.NodeGroup), ""}
}

// storage looks for settings by which an I/O to the LUN hangs for longer than the agent waits.
func (m *Machine) storage() (out []Finding) {
	if len(m.Config.LUN.Devices) == 0 {
		return []Finding{{OK, "LUN", "none is configured", ""}}
	}
	for _, d := range m.Config.LUN.Devices {
		if err := m.find(d); err != nil {
			out = append(out, Finding{Wrong, "LUN", d + ": " + cause(err), "log in to the target, or correct lun.devices"})
		} else {
			out = append(out, m.lun(d))
		}
	}
	if m.here() {
		out = append(out, m.Set()...)
	}
	for _, d := range m.Config.LUN.Devices {
		out = append(out, m.paths(d)...)
	}
	return out
}

// paths says which settings of the way to a device are wrong, by the code with which the agent looks at it. Settings are
// those in force: files may say something else, of which multipathd overrides a part.
func (m *Machine) paths(device string) (out []Finding) {
	const subject = "LUN paths"
	if m.Paths == nil {
		return nil
	}
	wrong, err := m.Paths(cmp.Or(m.Root, "/"), device)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // which was said already
	case err != nil:
		return []Finding{{Warn, subject, device + ": " + cause(err), "run this as root"}}
	case len(wrong) == 0:
		return []Finding{{OK, subject, device + ": no setting of its paths is known to be wrong", ""}}
	}
	for _, w := range wrong {
		out = append(out, Finding{Warn, subject, w.Found, w.Do})
	}
	return out
}
