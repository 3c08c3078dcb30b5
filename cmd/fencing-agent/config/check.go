package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

func checkNetworks(c *Config, r *report) {
	const list = "systemNetworks"
	if len(c.SystemNetworks) == 0 {
		r.problem(list, "is empty, and $"+EnvNodeIP+" is not an address that could replace them", nil,
			"at least one network, or $%s, in a pod from status.hostIP: then one network named %s has that address", EnvNodeIP, OnlyNetwork)
	}
	names := make(map[string]int)
	sockets := make(map[string]int)
	for i, n := range c.SystemNetworks {
		at := element(list, i)
		first, twice := names[n.Name]
		switch {
		case n.Name == "":
			r.problem(at+".name", "is missing", nil, "%s", forms["network name"].allowed)
		case twice:
			r.problem(at+".name", "is already the name of "+element(list, first), n.Name, "a name of its own")
		default:
			names[n.Name] = i
		}
		if n.At.Where() == "" {
			r.problem(at+".at", "is missing", nil, "where the network is on this node: an interface, a network such as 10.0.0.0/24, or an address")
			continue
		}
		socket := fmt.Sprintf("%s, port %d", n.At.Where(), n.Port)
		if first, twice := sockets[socket]; twice {
			r.problem(at, "would use the socket that "+element(list, first)+" uses", socket, "another port, or another network")
		} else {
			sockets[socket] = i
		}
	}
}

func checkMembers(c *Config, r *report) {
	const list = "members.static"
	ms := c.Members.Static
	if c.Members.Source != SourceStatic {
		if len(ms) > 0 {
			r.problem(list, "is given although members.source is "+string(c.Members.Source), nil, "no list, or source: static")
		}
		if c.Members.Epoch != 0 {
			r.problem("members.epoch", "is given although members.source is "+string(c.Members.Source), c.Members.Epoch, "no epoch: the nodes number the lists")
		}
		if c.Members.Source == SourceKubernetes && !c.UsesKubernetes() && r.intact("kubernetes", "kubernetes.kubeconfig") {
			r.problem("members.source", "needs an API server, and this is not a pod", c.Members.Source, "kubernetes with kubernetes.kubeconfig, or static")
		}
		if c.Members.Source == SourceKubernetes && !c.Kubernetes.Follows() {
			r.problem("kubernetes.node", "ignores the Node although members.source is kubernetes", c.Kubernetes.Node, "follow, report or label, or source: static")
		}
		return
	}
	switch {
	case len(ms) == 0:
		r.problem(list, "is empty", nil, "every node of the group, this one included")
	case len(ms) > roster.MaxNodes:
		r.problem(list, "is too long", len(ms), "at most %d members", roster.MaxNodes)
	}
	names := make(map[string]int)
	for i, m := range ms {
		at := element(list, i) + ".name"
		first, twice := names[m.Name]
		switch {
		case m.Name == "":
			r.problem(at, "is missing", nil, "%s", forms["node name"].allowed)
		case twice:
			r.problem(at, "is already the name of "+element(list, first), m.Name, "each node once")
		default:
			names[m.Name] = i
		}
		checkAddresses(c, r, i)
	}
	for _, n := range c.SystemNetworks {
		checkNetworkAddresses(c, r, n)
	}
	if self, listed := names[c.NodeName]; listed {
		checkOwnAddresses(c, r, self)
	} else if c.NodeName == "" && r.everyNode {
		for _, i := range bound(c) {
			checkOwnAddresses(c, r, i)
		}
	} else if !r.anyMembers && len(ms) > 0 && c.NodeName != "" && r.intact("nodeName") && membersIntact(r, len(ms)) {
		r.problem(list, "does not list this node", c.NodeName,
			"every node of the group; add {name: %s, addresses: ...}, or set nodeName or $%s to a listed name (%s)",
			c.NodeName, EnvNodeName, cut(strings.Join(slices.Sorted(maps.Keys(names)), ", ")))
	}
}

// membersIntact reports whether all names could be read.
func membersIntact(r *report, n int) bool {
	for i := range n {
		if !r.intact(element("members.static", i) + ".name") {
			return false
		}
	}
	return true
}

// checkAddresses checks that a member has an address on each network and on no other.
func checkAddresses(c *Config, r *report, i int) {
	at := element("members.static", i) + ".addresses"
	if !r.intact("systemNetworks") {
		return
	}
	var networks []string
	for j, n := range c.SystemNetworks {
		if !r.intact(element("systemNetworks", j) + ".name") {
			return
		}
		networks = append(networks, n.Name)
	}
	addresses := c.Members.Static[i].Addresses
	meant := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(addresses)) {
		if slices.Contains(networks, name) {
			continue
		}
		what := "is not a system network"
		if near := nearest(name, networks); near != "" {
			what, meant[near] = what+", did you mean "+near+"?", true
		}
		r.problem(child(at, name), what, nil, "%s", strings.Join(networks, ", "))
	}
	for _, name := range networks {
		if _, ok := addresses[name]; !ok && name != "" && !meant[name] {
			r.problem(at, "lacks the system network "+name, nil, "one address for each of %s", strings.Join(networks, ", "))
		}
	}
}

// checkNetworkAddresses compares the members' addresses on one network.
func checkNetworkAddresses(c *Config, r *report, n SystemNetwork) {
	taken := make(map[netip.Addr]int)
	first := -1
	for i, m := range c.Members.Static {
		a, at := m.Addresses[n.Name], child(element("members.static", i)+".addresses", n.Name)
		if !a.IsValid() {
			continue
		}
		if j, twice := taken[a]; twice {
			r.problem(at, "is already the address of "+c.Members.Static[j].Name, a, "an address of its own for each member")
			continue
		}
		taken[a] = i
		if first < 0 {
			first = i
		} else if b := c.Members.Static[first].Addresses[n.Name]; a.Is4() != b.Is4() {
			r.problem(at, "is of another family than the address of "+c.Members.Static[first].Name, a, "one family on a network: all IPv4 or all IPv6")
		}
	}
}

// checkOwnAddresses compares the addresses of the networks with this node's addresses on the list.
func checkOwnAddresses(c *Config, r *report, self int) {
	own := c.Members.Static[self]
	sockets := make(map[netip.AddrPort]string)
	for i, n := range c.SystemNetworks {
		at, a := element("systemNetworks", i), own.Addresses[n.Name]
		if !a.IsValid() {
			continue
		}
		if n.At.Address.IsValid() && n.At.Address != a {
			r.problem(at+".at", "is not the address that members.static gives "+own.Name, n.At.Address, "%s", a)
		}
		if n.At.CIDR.IsValid() && !n.At.CIDR.Contains(a) {
			r.problem(at+".at", "does not contain the address that members.static gives "+own.Name, n.At.CIDR, "a network with %s", a)
		}
		socket := netip.AddrPortFrom(a, uint16(n.Port)) //nolint:gosec // 1..65535, or the default
		if other, twice := sockets[socket]; twice && other != n.Name {
			r.problem(at, "would use the socket that network "+other+" uses", socket, "another port, or another address")
		}
		sockets[socket] = n.Name
	}
}

// checkHTTP checks that metrics and gossip, which also listens on TCP, do not want the same socket.
func checkHTTP(c *Config, r *report) {
	host, text, err := net.SplitHostPort(c.HTTP.Address)
	if err != nil || !r.intact("http.address", "systemNetworks") {
		return
	}
	a, err := netip.ParseAddr(host)
	all := host == "" || err == nil && a.IsUnspecified()
	for i, n := range c.SystemNetworks {
		own := n.At.Address
		for _, m := range c.Members.Static {
			if m.Name == c.NodeName && !own.IsValid() {
				own = m.Addresses[n.Name]
			}
		}
		if strconv.Itoa(n.Port) == text && (all || err == nil && a == own) {
			r.problem("http.address", "is also the socket of "+element("systemNetworks", i), c.HTTP.Address, "another port")
			return
		}
	}
}

func checkQuorum(c *Config, r *report) {
	n := len(c.Members.Static)
	if size := int(c.Quorum.Size); size > 0 && n > 0 && (size <= n/2 || size > n) {
		r.problem("quorum.size", "does not fit the number of members", size,
			"auto, or %d..%d: more than half of %d members", n/2+1, n, n)
	}
	if k := c.Reachability.AtLeast; k > len(c.SystemNetworks) && len(c.SystemNetworks) > 0 {
		r.problem("reachability", "asks for more networks than there are", c.Reachability,
			"any, all, or {atLeast: 1..%d}", len(c.SystemNetworks))
	}
	const key = "quorum.tieBreak"
	if c.Quorum.TieBreak != TieBreakAuto && c.Quorum.TieBreak != TieBreakLease { // checkLease reports that
		for _, b := range breakers() {
			if slices.Contains(c.Quorum.TieBreak.named(), b.value) {
				b.check(c, r, key)
			}
		}
	}
	if n > 0 && n%2 == 0 && len(c.TieBreakers()) == 0 && r.intact(key, "lun", "lun.devices", "kubernetes", "kubernetes.kubeconfig") {
		if c.Quorum.TieBreak == TieBreakNone && len(c.LUN.Devices) > 0 {
			r.warn(key, "lets nothing decide an equal split, not even the LUN that is given: both halves stop", c.Quorum.TieBreak)
		} else {
			r.warn(key, "has nothing that could decide: in an equal split both halves stop; configure a LUN "+
				"or kubernetes.kubeconfig, or run the agent in a pod", nil)
		}
	}
	repeated(c.Kubernetes.DisableAnnotations, func(i, _ int) {
		r.problem(element("kubernetes.disableAnnotations", i), "is listed twice",
			c.Kubernetes.DisableAnnotations[i], "each annotation once")
	})
}

func checkRestartGrace(c *Config, r *report) {
	if g := c.RestartGrace; g > 0 && g <= c.EvidenceMaxAge() && r.intact("gossip", "restartGrace") {
		r.warn("restartGrace", fmt.Sprintf("has no effect: a node that stops still counts for %v anyway", c.EvidenceMaxAge()), g)
	}
}

func checkLUN(c *Config, r *report) {
	const list = "lun.devices"
	if n := len(c.LUN.Devices); n != 0 && n != 1 && n != 3 {
		r.problem(list, "cannot form a useful majority", fmt.Sprintf("%d devices", n), "0, 1 or 3 devices")
	}
	cleaned := make([]string, len(c.LUN.Devices))
	for i, path := range c.LUN.Devices {
		cleaned[i] = filepath.Clean(path)
		if isWWN(path) {
			cleaned[i] = strings.ToLower(strings.Replace(path, ":0x", ":", 1))
		}
	}
	repeated(cleaned, func(i, _ int) {
		r.problem(element(list, i), "is listed twice", c.LUN.Devices[i], "each device once")
	})
	if n := len(c.Members.Static); len(c.LUN.Devices) > 0 && n > diskquorum.MaxSlots {
		r.problem(list, "cannot be used with that many members", n, "at most %d members with a LUN", diskquorum.MaxSlots)
	}
	need := c.PreferenceDelay() + c.RankStagger() + 2*c.LUN.HeartbeatInterval + c.BallotBudget()
	if a := c.ArbitrationBudget(); need > a && r.intact("lun.heartbeatInterval") {
		r.problem("lun.ioTimeout", fmt.Sprintf("leaves no time to arbitrate: preference delay %v, stagger %v, two heartbeats and a ballot of %v need %v, the budget is %v",
			c.PreferenceDelay(), c.RankStagger(), c.BallotBudget(), need, a),
			c.LUN.IOTimeout, "at least 2 heartbeatInterval = %v", 2*c.LUN.HeartbeatInterval)
	}
	if need := c.EvidenceMaxAge() + c.LUN.HeartbeatInterval; c.LUN.Hold && len(c.LUN.Devices) > 0 && c.ArbitrationBudget() <= need {
		r.warn("lun.hold", fmt.Sprintf("leaves a gap: in an outage of all networks nodes may stop for a moment before they can hold, "+
			"since D_max and a heartbeat are %v, and the arbitration budget is %v; make lun.heartbeatInterval or lun.ioTimeout longer, "+
			"or experimental.evidenceMaxAge shorter", need, c.ArbitrationBudget()), c.LUN.Hold)
	}
}

func checkWatchdog(c *Config, r *report) {
	w := c.Watchdog
	if w.Timeout%time.Second != 0 {
		r.problem("watchdog.timeout", "is not a whole number of seconds, and the kernel takes only those", w.Timeout, "2s..1h")
	}
	if 2*w.FeedInterval >= w.Timeout && r.intact("watchdog.timeout") {
		r.problem("experimental.feedInterval", "is too long: one late feeding would reset the node", w.FeedInterval,
			"less than half of watchdog.timeout = %v", w.Timeout)
	}
	checkSelfFence(c, r)
}

// checkSelfFence reports self-fences that the rest of the configuration prevents.
func checkSelfFence(c *Config, r *report) {
	w := c.Watchdog
	const key, after = "watchdog.selfFence", "experimental.selfFenceAfter"
	if w.SelfFence == SelfFenceLUN && c.LUN.Mode != LUNAnd {
		r.problem(key, fmt.Sprintf("needs lun.mode: and; with lun.mode: %s a node that loses the LUN goes on, and has nothing to fence itself for", c.LUN.Mode),
			w.SelfFence, "quorum, none, or lun.mode: and")
	}
	if given := c.Experimental.SelfFenceAfter; given != nil && *given < c.SentencePatience() && w.SelfFence != SelfFenceNone {
		r.warn(after, fmt.Sprintf("is shorter than the others need to show on the LUN that they live: %v is used instead (two lun.heartbeatInterval and a quarter of lun.ioTimeout)",
			c.SentencePatience()), *given)
	}
	if w.SelfFence == SelfFenceNone {
		return
	}
	switch why := c.sparesItself(); {
	case why != "" && r.given(after):
		r.warn(after, "has no effect: "+why, w.SentenceAfter)
	case why != "" && r.given(key):
		r.warn(key, "has no effect: "+why, w.SelfFence)
	case why == "" && w.Timeout <= watchdog.MaxSentence:
		r.warn("watchdog.timeout", fmt.Sprintf("is not longer than the longest countdown of a condemned boot: no node condemns itself, so the others know of a death by time alone; "+
			"and with nowayout each restart of the agent resets the node, since the next agent waits %v before it feeds; take %v or more",
			watchdog.MaxSentence+time.Second, 2*watchdog.MaxSentence), w.Timeout)
	}
}

// checkExperimental warns once that the keys of that section are not for general use.
func checkExperimental(c *Config, r *report) {
	if c.Experimental != Default().Experimental {
		r.warn(Laboratory, "is for measurements: its keys may change with each version, and with values that were never tested together, healthy nodes can be called dead (docs/tuning.md)", nil)
	}
}

// checkPaths checks that no path is used for two things. The agent writes the list of members and makes the socket
// again, so that a shared path would overwrite a key or a device; and another file at the path of the disable file
// would leave the node unguarded.
func checkPaths(c *Config, r *report) {
	type use struct{ key, path string }
	uses := []use{
		{"members.cacheFile", c.Members.CacheFile}, {"members.controller.credentials", c.Members.Controller.Credentials},
		{"kubernetes.kubeconfig", c.Kubernetes.Kubeconfig},
		{"gossip.keyFile", c.Gossip.KeyFile}, {"watchdog.device", c.Watchdog.Device},
		{"watchdog.disableFile", c.Watchdog.DisableFile}, {"api.socket", c.API.Socket},
	}
	for i, path := range c.API.MoreSockets {
		uses = append(uses, use{element("api.moreSockets", i), path})
	}
	for i, path := range c.LUN.Devices {
		uses = append(uses, use{element("lun.devices", i), path})
	}
	owner := make(map[string]string)
	for _, u := range uses {
		if !filepath.IsAbs(u.path) { // empty, the name of a watchdog's driver, or refused
			continue
		}
		path := filepath.Clean(u.path)
		first, twice := owner[path]
		switch {
		case !twice:
			owner[path] = u.key
		case !strings.HasPrefix(first, "lun.devices"): // checkLUN reports those
			r.problem(u.key, "is also the path of "+first, u.path, "a path of its own")
		}
	}
}
