package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/fencing-agent/fencing-agent/api/publish"
	"github.com/fencing-agent/fencing-agent/api/trouble"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/trials"
	"github.com/fencing-agent/fencing-agent/netgossip/iface"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// later describes what happens to a missing part, in the agent's own words.
var later = strings.ToLower(trouble.PartMissing.Means[:1]) + strings.TrimSuffix(trouble.PartMissing.Means[1:], ".")

// Parts checks the parts of the agent of Config with the code of the agent's start, except for what binds or opens
// anything.
func (m *Machine) Parts() (out []Finding) {
	if m.Config.NodeName == "" && m.Config.Members.Source == config.SourceStatic { // see config.Review
		host, _ := os.Hostname()
		out = append(out, Finding{Wrong, "nodeName", fmt.Sprintf("members.static has no node %q, as this machine calls itself", host),
			noStart + ": set nodeName, or NODE_NAME in /etc/default/fencing-agent, to this node's name in the list"})
	}
	for i := range m.Config.SystemNetworks {
		out = append(out, m.address(&m.Config.SystemNetworks[i])...)
	}
	for _, path := range append([]string{m.Config.API.Socket}, m.Config.API.MoreSockets...) {
		out = append(out, m.socket(path))
	}
	if m.Config.HTTP.Address != "" {
		out = append(out, m.http())
	}
	if m.Config.Kubernetes.Kubeconfig != "" {
		out = append(out, m.kubeconfig())
	}
	if m.Config.Watchdog.Driver != config.DriverNone {
		out = append(out, m.device())
	}
	return append(out, m.memory())
}

// tried describes what fencectl watchdog test has shown about a watchdog with that timeout.
func (m *Machine) tried(w Watchdog, timeout time.Duration) (level Level, found, do string) {
	c := m.Config
	if c == nil {
		c = config.Default()
	}
	level = OK
	if w.Name == OutsideOfCore && c.Watchdog.Driver == config.DriverTested {
		return Wrong, ", which cannot be tested, and watchdog.driver is tested: the agent does not use it", "load a driver that is in /sys/class/watchdog, or set watchdog.driver to device"
	}
	if w.Name == OutsideOfCore {
		return level, "", "" // not in sysfs, and so it cannot be tried
	}
	const try = "let it reset this machine once, with the agent stopped: fencectl watchdog test"
	seen, err := trials.Look(m.Root, c.TrialsFile())
	seen.Strict = c.Watchdog.Driver == config.DriverTested
	last := seen.Last(w.Identity)
	d := watchdog.Driver{Identity: w.Identity, Measured: seen.Of(w.Identity)}
	switch {
	case err != nil:
		level, found, do = Warn, ", what was tried cannot be read: "+err.Error(), try
	case d.Measured.Unproven:
		level, found, do = Wrong, ", never seen to reset this machine, and watchdog.driver is tested: the agent does not use it", try
	case last == nil:
		level, found, do = Warn, ", never seen to reset this machine", try
	case d.Measured.Failed:
		level, found = Wrong, ", did not reset this machine on "+last.Began.Format(time.DateOnly)
		do = "the agent does not use it: look for another driver, or for what feeds it, and try again with fencectl watchdog test"
	default:
		found = fmt.Sprintf(", reset this machine on %s after %v of %v", last.Began.Format(time.DateOnly), last.Ran.Round(100*time.Millisecond), last.Timeout)
	}
	if latest := d.Latest(timeout); latest > timeout && !d.Measured.Failed {
		found += fmt.Sprintf(", fires within %v, which is what others wait for", (latest + 99*time.Millisecond).Truncate(100*time.Millisecond))
	}
	return level, found, do
}

// address looks for this node's address on a network, and for the process that has its port.
func (m *Machine) address(sn *config.SystemNetwork) []Finding {
	subject, all := "address "+sn.Name, m.members()
	want := addressOf(all, m.Config.NodeName, sn.Name)
	l, err := iface.Find(iface.Query{Network: sn.Name, Interface: sn.At.Interface, CIDR: sn.At.CIDR, Address: sn.At.Address, Listed: want})
	switch {
	case err != nil:
		return []Finding{{Wrong, subject, strings.TrimPrefix(err.Error(), "network "+sn.Name+": "), later}}
	case slices.ContainsFunc(all, func(o roster.Member) bool {
		return o.Name != m.Config.NodeName && o.Addresses[sn.Name] == l.Address.String()
	}):
		return []Finding{{Wrong, subject, fmt.Sprintf("%v (%s) is another member's address on the list", l.Address, l.Interface), noStart + ": correct the list, nodeName or the network"}}
	case want.IsValid() && want != l.Address && m.Config.Members.Source != config.SourceKubernetes:
		return []Finding{{Wrong, subject, fmt.Sprintf("%v (%s), and the list of members has %v for this node", l.Address, l.Interface, want),
			"give the node that address, or correct the list, nodeName or the network; " + later}}
	}
	at := netip.AddrPortFrom(l.Address, uint16(sn.Port))
	is := Finding{OK, subject, fmt.Sprintf("%v on %s", l.Address, l.Interface), ""}
	if up, err := iface.Up(l); err == nil && !up {
		is = Finding{Wrong, subject, is.Found + ", which is down", "bring it up: peers are not heard there"}
	}
	return []Finding{is, m.port("port "+strconv.Itoa(sn.Port)+" "+sn.Name, at)}
}

// members returns the configured members, or those that the agent remembers from another source; nil: it remembers
// none.
func (m *Machine) members() []roster.Member {
	if m.Config.Members.Source == config.SourceStatic {
		return m.Config.Members.List()
	}
	var file struct {
		Chain []struct{ Members []roster.Member } `json:"chain"`
	}
	text, _ := os.ReadFile(filepath.Join(m.Root, m.Config.Members.CacheFile)) // the file does not exist before the first start
	if json.Unmarshal(text, &file) != nil || len(file.Chain) == 0 {
		return nil
	}
	return file.Chain[len(file.Chain)-1].Members
}

func addressOf(all []roster.Member, node, network string) (a netip.Addr) {
	if i := slices.IndexFunc(all, func(o roster.Member) bool { return o.Name == node }); i >= 0 {
		a, _ = netip.ParseAddr(all[i].Addresses[network]) // checked with the list
	}
	return a
}

func (m *Machine) socket(path string) Finding {
	subject := "socket"
	err := publish.Look(path, m.Config.API.SocketGroup)
	var refused *publish.RefusedError
	switch {
	case err == nil:
		return Finding{OK, subject, path + " can be made", ""}
	case errors.As(err, &refused) && refused.PID != 0 && m.program(refused.PID) == agentProgram:
		return Finding{OK, subject, path + " is served by the agent", ""}
	case errors.As(err, &refused):
		return Finding{Wrong, subject, err.Error(), noStart}
	}
	return Finding{Wrong, subject, err.Error(), later}
}

func (m *Machine) program(pid int) string {
	comm, _ := m.read("/proc/" + strconv.Itoa(pid) + "/comm")
	return comm
}

func (m *Machine) http() Finding {
	const subject = "http.address"
	at, err := net.ResolveTCPAddr("tcp", m.Config.HTTP.Address)
	if err != nil {
		return Finding{Wrong, subject, err.Error(), later}
	}
	to := at.AddrPort()
	if at.IP == nil {
		to = netip.AddrPortFrom(netip.IPv6Unspecified(), to.Port())
	}
	ip := to.Addr().Unmap().WithZone("")
	if !ip.IsUnspecified() {
		if _, err := iface.Find(iface.Query{Network: subject, Address: ip}); err != nil {
			return Finding{Wrong, subject, fmt.Sprintf("%v is not an address of this node", ip), later}
		}
	}
	f := m.port(subject, netip.AddrPortFrom(ip, to.Port()))
	f.Found = m.Config.HTTP.Address + ": " + f.Found
	return f
}

// kubeconfig checks whether there is one, with the files that it names.
func (m *Machine) kubeconfig() Finding {
	const subject = "kubernetes.kubeconfig"
	path := m.Config.Kubernetes.Kubeconfig
	if err := usable(path); err != nil {
		do := later
		if m.Config.Quorum.TieBreak == config.TieBreakLease {
			do = noStart + ": the Lease that breaks ties is in the namespace of its context"
		}
		return Finding{Wrong, subject, err.Error(), do}
	}
	return Finding{OK, subject, path + " can be read", ""}
}

// usable returns why a kubeconfig is not usable.
func usable(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var k struct {
		Current  string `yaml:"current-context"`
		Contexts []struct {
			Name    string
			Context struct{ Cluster, User string }
		}
		Clusters []struct {
			Name    string
			Cluster struct {
				CA string `yaml:"certificate-authority"`
			}
		}
		Users []struct {
			Name string
			User struct {
				Certificate string `yaml:"client-certificate"`
				Key         string `yaml:"client-key"`
				Token       string `yaml:"tokenFile"`
			}
		}
	}
	if err := yaml.Unmarshal(text, &k); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(k.Clusters) == 0 {
		return fmt.Errorf("%s names no cluster", path)
	}
	cluster, user, chosen := "", "", false // the agent only reads the files of the current context
	for _, c := range k.Contexts {
		if c.Name == k.Current {
			cluster, user, chosen = c.Context.Cluster, c.Context.User, true
		}
	}
	var files []string
	for _, c := range k.Clusters {
		if !chosen || c.Name == cluster {
			files = append(files, c.Cluster.CA)
		}
	}
	for _, u := range k.Users {
		if !chosen || u.Name == user {
			files = append(files, u.User.Certificate, u.User.Key, u.User.Token)
		}
	}
	for _, file := range files {
		if file == "" {
			continue
		}
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(path), file)
		}
		info, err := os.Stat(file)
		if err == nil && info.Size() == 0 {
			err = fmt.Errorf("%s is empty", file)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// device checks the watchdog that the agent would arm.
func (m *Machine) device() Finding {
	const subject = "watchdog.device"
	err := wdt.Named(m.Config.Watchdog.Device).Probe(m.Config.Watchdog.Timeout)
	var wrong *wdt.WrongError
	switch {
	case err == nil:
		return Finding{OK, subject, m.Config.Watchdog.Device + " can be armed, as far as can be seen", ""}
	case wdt.HeldBy(err) == agentProgram:
		return Finding{OK, subject, m.Config.Watchdog.Device + " is the agent's", ""}
	case errors.As(err, &wrong):
		return Finding{Wrong, subject, err.Error(), noStart}
	}
	return Finding{Wrong, subject, err.Error(), later + "; until then the node counts unguarded, and its death is not proven by time"}
}

// memory checks whether the agent can read its lists, and store others. An agent that remembers a list starts with it.
func (m *Machine) memory() Finding {
	const subject = "members.cacheFile"
	remembers, do, err := m.remembers()
	if do != "" {
		return Finding{Wrong, subject, err.Error(), noStart + ": " + do}
	}
	f := m.writable(subject)
	if f.Level == Wrong && (remembers || errors.Is(err, unix.EACCES)) {
		f.Do = "the agent starts with the list that it remembers, and adopts no other list until it can write this file: make the folder writable for the agent"
	}
	return f
}

// remembers reads from the file of lists to which agent it belongs. If that file keeps the agent from starting, do
// describes the remedy.
func (m *Machine) remembers() (yes bool, do string, err error) {
	const forget = "if no other agent of the group runs, or all have the present list in force, remove the file"
	path, c := m.Config.Members.CacheFile, m.Config
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, unix.ELOOP):
		return false, "remove the link", err
	case err != nil: // nothing is remembered, or the user is not root
		return false, "", err
	case !info.Mode().IsRegular():
		return false, "give the agent a file of its own", fmt.Errorf("%s is not a regular file", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return false, "", err
	}
	const format = 1 // of this version
	var whose struct {
		Version                  int
		Cluster, NodeGroup, Node string
	}
	switch err := json.Unmarshal(text, &whose); {
	case err != nil:
		return false, forget, fmt.Errorf("%s is damaged: %w", path, err)
	case whose.Version != format:
		return false, "start the version that has written it; " + forget, fmt.Errorf("%s has format %d, but this version only reads format %d", path, whose.Version, format)
	case whose.Cluster != c.Cluster || whose.NodeGroup != c.NodeGroup || whose.Node != c.NodeName:
		return false, "give each agent a file of its own, or correct nodeName, nodeGroup or cluster",
			fmt.Errorf("%s belongs to node %q, group %q, cluster %q", path, whose.Node, whose.NodeGroup, whose.Cluster)
	}
	return true, "", nil
}

// writable checks whether the agent can store a list.
func (m *Machine) writable(subject string) Finding {
	folder := filepath.Dir(m.Config.Members.CacheFile)
	writes := m.writes
	if writes == nil {
		writes = func(folder string) error { return unix.Access(folder, unix.W_OK) }
	}
	for there := folder; ; there = filepath.Dir(there) {
		err := writes(there)
		if info, none := os.Stat(there); none == nil && !info.IsDir() {
			err = unix.ENOTDIR
		}
		switch {
		case err == nil:
			return Finding{OK, subject, folder + " is writable", ""}
		case !errors.Is(err, unix.ENOENT) || there == filepath.Dir(there):
			return Finding{Wrong, subject, there + ": " + err.Error(), noStart + " without a memory of its lists: make the folder writable for the agent"}
		}
	}
}
