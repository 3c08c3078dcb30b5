package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fencing-agent/fencing-agent/cmd/fencectl/doctor"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
)

// wishes are the flags of config init.
type wishes struct {
	cluster, group, source, keyFile, watchdog string
	networks, members, luns                   []string
	machine                                   *machineFlags
}

// around is what was found on the machine.
type around struct {
	host      string
	networks  []foundNetwork
	watchdogs []doctor.Watchdog
	luns      []string // wwn:...
}

// foundNetwork is an interface that is up and has an address.
type foundNetwork struct {
	name    string
	address netip.Prefix
}

func newConfigInitCommand(env *environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init FILE",
		Short: "Write a first configuration for a group, by what this machine has",
		Long: `Look at this machine's networks, watchdogs and disks, and write a commented configuration to FILE, which must not exist.
Nothing is asked: what no flag says is what was found. What "config check" would refuse is not written.

Each --member is NAME=ADDRESS,ADDRESS..., with an address for each network, in the order of --network. Without any, this
machine stands there alone, and the others are to be added. With --source kubernetes the members are the Nodes.

No disk is taken as the LUN unless --lun says so: those that may be one stand in a comment. What --lun names is read, if
it is formatted already: the agent takes it only for the cluster and the node group that it was formatted for. FILE may
be - for standard output.`,
		Example: `  fencectl config init /etc/fencing-agent/agent.yaml --node-group storage
  fencectl config init agent.yaml --node-group storage --network eth0 --network bond0 \
      --member n1=10.0.0.1,10.1.0.1 --member n2=10.0.0.2,10.1.0.2 --member n3=10.0.0.3,10.1.0.3
  fencectl config init - --node-group worker --source kubernetes --lun /dev/mapper/fence`,
		Args: operands("FILE"),
	}
	w := &wishes{machine: newMachineFlags(cmd)}
	flags := cmd.Flags()
	flags.StringVar(&w.group, "node-group", "", "the group's `name`; it has to be said")
	flags.StringVar(&w.cluster, "cluster", "", "the cluster's `name` (default: that of the LUN, else of an agent without one)")
	flags.StringVar(&w.source, "source", string(config.SourceStatic), "where the list of members comes from: static or kubernetes")
	flags.StringArrayVar(&w.networks, "network", nil, "an `interface` (default: all that are up and look like a network of nodes)")
	flags.StringArrayVar(&w.members, "member", nil, "a node of the group, `NAME=ADDRESS,...`")
	flags.StringArrayVar(&w.luns, "lun", nil, "a `device` that breaks ties: one or three")
	flags.StringVar(&w.watchdog, "watchdog", "", "the `path` of the watchdog (default: the first that is no softdog)")
	flags.StringVar(&w.keyFile, "key-file", "", "gossip.keyFile, made by \"fencectl key new\"")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if w.group == "" {
			return usagef("--node-group is missing: all nodes of one group have the same")
		}
		if w.source != string(config.SourceStatic) && w.source != string(config.SourceKubernetes) {
			return usagef("invalid argument %q for \"--source\" flag: static or kubernetes", w.source)
		}
		if w.source == string(config.SourceKubernetes) && len(w.members) > 0 {
			return usagef("--member is for --source static: with kubernetes the members are the Nodes with the group's label")
		}
		if err := w.meetLUNs(formattedFor); err != nil {
			return err
		}
		a, err := lookAround(&doctor.Machine{Root: w.machine.root})
		if err != nil {
			return err
		}
		text, err := w.draft(a)
		if err != nil {
			return err
		}
		pod := func(key string) string {
			if key == config.EnvInCluster && w.source == string(config.SourceKubernetes) {
				return "kubernetes.default.svc"
			}
			return ""
		}
		r, err := config.Review(args[0], []byte(text), pod)
		if err != nil {
			return fmt.Errorf("nothing was written, for the configuration would be refused: %w", err)
		}
		if err := writeNew(env, args[0], text); err != nil {
			return err
		}
		warnOf(env, args[0], r)
		return nil
	}
	return cmd
}

// meetLUNs takes the cluster's name from a LUN that is formatted, and refuses one that is of others: the agent would end
// with that. One that cannot be read, or is not formatted yet, says nothing.
func (w *wishes) meetLUNs(formattedFor func(string) (doctor.Format, error)) error {
	for _, device := range w.luns {
		f, err := formattedFor(device)
		if err != nil {
			continue
		}
		if w.cluster == "" {
			w.cluster = f.Cluster
		}
		if f.Cluster != w.cluster || f.NodeGroup != w.group {
			return fmt.Errorf("nothing was written: %s", wrongLUN(device, f.Cluster, f.NodeGroup, w.cluster, w.group))
		}
	}
	return nil
}

// wrongLUN says what an agent would end with.
func wrongLUN(device, cluster, group, ownCluster, ownGroup string) string {
	return fmt.Sprintf("the LUN %s is formatted for cluster %q, node group %q, and the agent would belong to cluster %q, node group %q; correct lun.devices, cluster or nodeGroup",
		device, cluster, group, ownCluster, ownGroup)
}

// checkLUNs refuses a configuration with which the agent would not start on this machine. A device that is not here, or
// cannot be read, says nothing.
func checkLUNs(c *config.Config, formattedFor func(string) (doctor.Format, error)) error {
	for _, device := range c.LUN.Devices {
		f, err := formattedFor(device)
		switch {
		case err != nil:
		case f.Cluster != c.Cluster || f.NodeGroup != c.NodeGroup:
			return errors.New(wrongLUN(device, f.Cluster, f.NodeGroup, c.Cluster, c.NodeGroup))
		case f.Slots < len(c.Members.Static):
			return fmt.Errorf("the LUN %s has %d slots for %d members; format it with more --slots", device, f.Slots, len(c.Members.Static))
		}
	}
	return nil
}

// writeNew never writes over a file.
func writeNew(env *environment, name, text string) error {
	if name == "-" {
		return writeText(env, []byte(text))
	}
	err := makeFile(name, 0o644, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists, and may be what an agent runs by: name another file, or - for standard output", name)
	}
	return err
}

// noNetworkOfNodes are beginnings of the names of interfaces that containers and tunnels have.
var noNetworkOfNodes = []string{"veth", "docker", "cni", "cilium", "lxc", "flannel", "kube", "virbr", "br-", "cali", "tun", "tap", "wg", "dummy", "podman"}

func lookAround(m *doctor.Machine) (a *around, err error) {
	a = &around{watchdogs: m.Watchdogs(), luns: m.Disks()}
	if a.host, err = os.Hostname(); err != nil {
		return nil, err
	}
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 ||
			slices.ContainsFunc(noNetworkOfNodes, func(p string) bool { return strings.HasPrefix(i.Name, p) }) {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			continue // it has just gone
		}
		for _, x := range addresses {
			if p, err := netip.ParsePrefix(x.String()); err == nil && p.Addr().IsGlobalUnicast() {
				a.networks = append(a.networks, foundNetwork{i.Name, p})
				break
			}
		}
	}
	return a, nil
}

// draft is the text of the file.
func (w *wishes) draft(a *around) (string, error) {
	names := w.networks
	if len(names) == 0 {
		for _, n := range a.networks {
			names = append(names, n.name)
		}
	}
	if len(names) == 0 {
		return "", errors.New("no network was found that is up and has an address: name its interface with --network")
	}
	var b strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	put("# The configuration of fencing-agent, the same file on all nodes of the group: the host's name tells them apart.")
	put("# All keys are in docs/configuration.md. Check it with: fencectl config check FILE%s",
		map[bool]string{true: " --in-pod"}[w.source == string(config.SourceKubernetes)])
	if w.cluster != "" {
		put("cluster: %q", w.cluster)
	}
	put("nodeGroup: %q", w.group)
	put("systemNetworks: # of nodes alone; two that share no switch are better than one")
	for _, n := range names {
		put("  - {name: %q, at: %q}%s", networkName(n), n, a.addressOf(n))
	}
	if err := w.putMembers(put, a, names); err != nil {
		return "", err
	}
	if w.keyFile == "" {
		put("# gossip: {keyFile: /etc/fencing-agent/gossip.keys} # nothing is encrypted without; made by fencectl key new")
	} else {
		put("gossip: {keyFile: %q} # the same on all nodes", w.keyFile)
	}
	w.putLUN(put, a)
	w.putWatchdog(put, a)
	return b.String(), nil
}

// networkName is a name for what an interface leads to. What may not stand in a name becomes a hyphen.
func networkName(device string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(device)), "-")
}

func (a *around) addressOf(device string) string {
	for _, n := range a.networks {
		if n.name == device {
			return " # " + n.address.String() + " on this machine"
		}
	}
	return ""
}

func (w *wishes) putMembers(put func(string, ...any), a *around, networks []string) error {
	if w.source == string(config.SourceKubernetes) {
		put("members: {source: kubernetes} # the Nodes with the group's label")
		return nil
	}
	put("members:")
	put("  source: static")
	put("  static: # all nodes of the group, by the names that their hosts have")
	if len(w.members) == 0 {
		own := make([]string, len(networks))
		for i, name := range networks {
			k := slices.IndexFunc(a.networks, func(n foundNetwork) bool { return n.name == name })
			if k < 0 {
				return fmt.Errorf("%s has no address on this machine: name all nodes with --member", name)
			}
			own[i] = a.networks[k].address.Addr().String()
		}
		put("    # Add the other nodes: a group of one has nobody that could take over.")
		w.putMember(put, a.host, networks, own)
		return nil
	}
	for _, m := range w.members {
		name, list, _ := strings.Cut(m, "=")
		addresses := strings.Split(list, ",")
		if name == "" || len(addresses) != len(networks) || slices.Contains(addresses, "") {
			return usagef("invalid argument %q for \"--member\" flag: NAME=ADDRESS,... with %d addresses, for %s", m, len(networks), strings.Join(networks, ", "))
		}
		w.putMember(put, name, networks, addresses)
	}
	return nil
}

func (w *wishes) putMember(put func(string, ...any), name string, networks, addresses []string) {
	pairs := make([]string, len(networks))
	for i := range networks {
		pairs[i] = fmt.Sprintf("%q: %q", networkName(networks[i]), addresses[i])
	}
	put("    - {name: %q, addresses: {%s}}", name, strings.Join(pairs, ", "))
}

func (w *wishes) putLUN(put func(string, ...any), a *around) {
	if len(w.luns) > 0 {
		quoted := make([]string, len(w.luns))
		for i, l := range w.luns {
			quoted[i] = fmt.Sprintf("%q", l)
		}
		put("quorum: {tieBreak: lun} # of two halves exactly one lives")
		put("lun: {devices: [%s]} # format it once, from one node: fencectl lun init", strings.Join(quoted, ", "))
		return
	}
	put("quorum: {tieBreak: none} # in an equal split both halves stop; a LUN that all nodes see lets one live:")
	put("# lun: {devices: [...]} # one or three, and quorum: {tieBreak: lun}")
	for _, l := range a.luns {
		put("#   %s", l)
	}
}

func (w *wishes) putWatchdog(put func(string, ...any), a *around) {
	for _, d := range a.watchdogs {
		put("# /dev/%s on this machine: %s, timeout %s s%s", comment(d.Name), cmp.Or(comment(d.Identity), "no identity"), comment(d.Timeout), map[bool]string{true: ", nowayout"}[d.NoWayOut])
	}
	device := w.watchdog
	if device == "" && len(a.watchdogs) > 0 {
		k := slices.IndexFunc(a.watchdogs, func(d doctor.Watchdog) bool { return !strings.Contains(strings.ToLower(d.Identity), "software") })
		device = "/dev/" + a.watchdogs[max(0, k)].Name
	}
	put("watchdog:")
	put("  driver: none # decides and reports, and resets nobody. When that is right for some days: device")
	put("  device: %q # see fencectl watchdog list, and fencectl doctor", cmp.Or(device, config.Default().Watchdog.Device))
}

// comment keeps what a driver says of itself in one line of a comment.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, filepath.ToSlash(s))
}
