package fenceconfig

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The names of ConfigMaps, and the key of their data that is read.
const (
	ClusterObject  = "fence-cluster-config"
	ClusterAlias   = "cluster-fence-config" // the name in an older draft, which is read as well
	nodePrefix     = "fence-config-"
	methodPrefix   = "fence-method-"
	templatePrefix = "fence-method-template-"

	ConfigKey   = "config.properties"
	MethodKey   = "method.properties"
	TemplateKey = "template.properties"
)

// The actions of methods, and the policies of steps.
const (
	On, Off = "on", "off"

	All     = "all"      // each method has to succeed
	OnlyOne = "only one" // they are tried one after the other until one succeeds
)

// Objects holds the data of the ConfigMaps of one namespace, by name.
type Objects map[string]map[string]string

// Cluster is what applies to all nodes.
type Cluster struct {
	Grace        time.Duration // how long a node may stay NotReady after a step before the next step begins
	Retries      int           // of a step, before a person has to look
	JobTimeout   time.Duration
	CheckTimeout time.Duration // of the check whether a node is already off
	Poll         time.Duration
	Settle       time.Duration // how long a node has to be Ready before its fencing is over
	Trigger      time.Duration // how long it has to be NotReady before its fencing begins
	Monitor      time.Duration // how often devices are checked; 0: never
	// ByRemediation is true if no fencing begins because a Node is not Ready, but only for a remediation or a person.
	ByRemediation bool
	MostDump      time.Duration // how long a dump keeps power from being cut
	MaxUnhealthy  int           // percent of the managed nodes; beyond that nothing begins
	MaxSilent     int           // percent of all Nodes that may have a Lease that has run out
	MaxConcurrent int           // how many nodes may run a step at one time
	Cooldown      time.Duration // how long nothing begins after a storm

	SkipLeaseHeld    bool // hold fencing while agents report that a node's slot on the LUN keeps changing
	SkipDisconnected bool // hold fencing while agents report that a node answers but does not reach the LUN
	OnlyWithQuorum   bool // hold fencing while all agents of a group have lost quorum
}

// Node is one managed node.
type Node struct {
	Name      string
	Object    string
	Broken    bool // it has problems: no fencing is started for it
	Isolation []Method
	Power     []Method
	Recovery  []Method

	IsolationPolicy, RecoveryPolicy string
	Kdump                           bool
	DumpDelay                       time.Duration // how long after the last message of its crash kernel its power may be cut
}

// Config is the complete configuration of fencing by devices.
type Config struct {
	Cluster  Cluster
	Broken   bool // the part for all nodes has problems, and defaults replace it: no fencing begins
	Nodes    map[string]*Node
	Problems []Problem
}

// leastMonitor is the shortest interval at which a device is checked. Many devices have only one session, which a fence
// agent needs for some seconds.
const leastMonitor = time.Minute

const clusterKeys = "grace_timeout, giveup_retries, job_timeout, check_timeout, poll_interval, settle, trigger_after, monitor_interval, max_unhealthy_percent, max_silent_percent, max_concurrent, cooldown, begin_by, kdump_max, skip_storage_lease_held, skip_storage_disconnected, only_with_quorum"

// Read reads all ConfigMaps of a namespace. It ignores ConfigMaps that are not about fencing. Without agents the
// options of methods are not checked.
func Read(objects Objects, agents Agents) *Config {
	c := &Config{Nodes: map[string]*Node{}}
	c.Cluster = c.cluster(objects)
	c.Broken = slices.ContainsFunc(c.Problems, func(p Problem) bool { return !p.Warning })
	used := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if strings.HasPrefix(name, nodePrefix) {
			n := c.node(name, objects, agents, used)
			c.Nodes[n.Name] = n
		}
	}
	c.shared()
	c.unread(objects, used)
	slices.SortStableFunc(c.Problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Object, b.Object), a.Line-b.Line, strings.Compare(a.Text, b.Text))
	})
	c.Problems = slices.Compact(c.Problems)
	return c
}

// cluster reads the part for all nodes, under either name.
func (c *Config) cluster(objects Objects) Cluster {
	object := ClusterObject
	if _, there := objects[object]; !there && objects[ClusterAlias] != nil {
		object = ClusterAlias
	}
	text, given := objects[object][ConfigKey]
	r := newReader(object, text)
	if _, there := objects[object]; there && !given {
		r.add(0, "it has no key %s", ConfigKey)
	}
	if _, there := objects[ClusterAlias]; there && object != ClusterAlias {
		r.add(0, "there is also a ConfigMap %s, which is another name of this one: remove one of them", ClusterAlias)
	}
	out := Cluster{
		MostDump: r.seconds("kdump_max", 900, 0, 86400),
		Grace:    r.seconds("grace_timeout", 300, 1, 86400), Retries: r.number("giveup_retries", 5, 0, 100),
		JobTimeout: r.seconds("job_timeout", 60, 5, 3600), CheckTimeout: r.seconds("check_timeout", 20, 1, 600),
		Poll: r.seconds("poll_interval", 10, 1, 300), Settle: r.seconds("settle", 60, 1, 3600),
		Trigger: r.seconds("trigger_after", 30, 0, 86400), Monitor: r.seconds("monitor_interval", 600, 0, 86400),
		MaxUnhealthy: r.number("max_unhealthy_percent", 40, 1, 100), MaxSilent: r.number("max_silent_percent", 40, 1, 100),
		MaxConcurrent: r.number("max_concurrent", 2, 1, 1000), Cooldown: r.seconds("cooldown", 300, 0, 86400), ByRemediation: r.choice("begin_by", "not-ready", "remediation") == "remediation",
		SkipLeaseHeld: r.choice("skip_storage_lease_held", "yes", "no") == "yes", SkipDisconnected: r.choice("skip_storage_disconnected", "no", "yes") == "yes",
		OnlyWithQuorum: r.choice("only_with_quorum", "yes", "no") == "yes",
	}
	if out.Monitor > 0 && out.Monitor < leastMonitor {
		r.warn(0, "monitor_interval is %d seconds: it must be at least %d, which is used instead, or 0 for never", out.Monitor/time.Second, leastMonitor/time.Second)
		out.Monitor = leastMonitor
	}
	r.unknown(clusterKeys)
	c.Problems = append(c.Problems, r.problems...)
	return out
}

const nodeKeys = "node_name, isolation, power_management, recovery, isolation_policy, recovery_policy, kdump, power_delay_after_kdump"

// node reads one node's ConfigMap, and the methods that it lists.
func (c *Config) node(object string, objects Objects, agents Agents, used map[string]bool) *Node {
	n := &Node{Name: strings.TrimPrefix(object, nodePrefix), Object: object}
	text, there := objects[object][ConfigKey]
	r := newReader(object, text)
	if !there {
		r.add(0, "it has no key %s", ConfigKey)
	}
	if name, line := r.take("node_name"); line == 0 && there {
		r.add(0, "node_name is not given; it has to be %s", n.Name)
	} else if there && name != n.Name {
		r.add(line, "node_name is %q, but this ConfigMap is for node %s", name, n.Name)
	}
	n.IsolationPolicy, n.RecoveryPolicy = r.choice("isolation_policy", All, OnlyOne), r.choice("recovery_policy", All, OnlyOne)
	n.Kdump = r.choice("kdump", "false", "true") == "true"
	n.DumpDelay = r.seconds("power_delay_after_kdump", 0, 0, 86400)
	for _, s := range []struct {
		key string
		to  *[]Method
	}{{"isolation", &n.Isolation}, {"power_management", &n.Power}, {"recovery", &n.Recovery}} {
		list, line := r.take(s.key)
		names := strings.Fields(list)
		for i, name := range names {
			if slices.Contains(names[:i], name) {
				r.add(line, "%s lists %s twice", s.key, name)
				continue
			}
			*s.to = append(*s.to, r.method(line, name, n.Name, objects, agents, used))
		}
	}
	if there && len(n.Isolation)+len(n.Power) == 0 {
		r.add(0, "neither isolation nor power_management lists a method: the node could not be fenced")
	}
	r.unknown(nodeKeys)
	r.rules(n)
	n.Broken = slices.ContainsFunc(r.problems, func(p Problem) bool { return !p.Warning })
	c.Problems = append(c.Problems, r.problems...)
	return n
}

// rules checks the rules that the methods of one node must fulfil together.
func (r *reader) rules(n *Node) {
	for _, m := range n.Isolation {
		if m.Action == On {
			r.add(0, "isolation lists %s, whose action is on: that would not isolate the node", m.Name)
		}
	}
	for _, m := range n.Recovery {
		if m.Action == Off {
			r.add(0, "recovery lists %s, whose action is off: that would cut off a node that is back", m.Name)
		}
	}
	for _, m := range slices.Concat(n.Power, n.Recovery) {
		if m.Storage.Driver != "" {
			r.add(0, "%s has a storage_driver: only a method of isolation cuts a node off from a storage", m.Name)
		}
	}
	for i, m := range n.Power {
		for _, o := range n.Power[:i] {
			if m.Action == o.Action && m.outlet() == o.outlet() {
				r.add(0, "%s and %s of power_management switch the same outlet: a second power supply needs its own outlet, else it stays on", o.Name, m.Name)
			}
		}
		if m.Action == Off && !m.MustSuccess {
			r.add(0, "%s switches power off with must_success=no: a supply that stays on leaves the node running", m.Name)
		}
		if m.Action == On && !slices.ContainsFunc(n.Power, func(o Method) bool { return o.Action == Off && o.supply() == m.supply() }) {
			r.add(0, "power_management lists %s, but no method that switches the same plug off: the node would not lose its power", m.Name)
		}
	}
	for _, m := range n.Isolation {
		back := func(o Method) bool { return o.supply() == m.supply() }
		if m.Action == Off && !slices.ContainsFunc(n.Recovery, back) && !slices.ContainsFunc(n.Power, func(o Method) bool { return o.Action == On && back(o) }) {
			r.warn(0, "nothing undoes %s: recovery lists no method for the same plug", m.Name)
		}
	}
}

// shared refuses nodes that have an outlet in common. A configuration that was copied from one node to another and not
// changed would switch off the wrong node. An agent without an address may use the node's name, so only the node's
// ConfigMap identifies the device.
func (c *Config) shared() {
	first := map[string]*Node{}
	told := map[[2]string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.Nodes)) {
		n := c.Nodes[name]
		for _, m := range slices.Concat(n.Isolation, n.Power, n.Recovery) {
			keys := []string{"object " + m.Object}
			if m.address() != "" {
				keys = append(keys, m.outlet())
			}
			if key := m.option("key"); key != "" { // the key of a reservation
				keys = append(keys, fmt.Sprint(m.Agent, " key ", strings.ToLower(key)))
			}
			for _, key := range keys {
				other := first[key]
				if other == nil {
					first[key] = n
				}
				if pair := [2]string{name, m.Name}; other != nil && other != n && !told[pair] {
					told[pair], n.Broken, other.Broken = true, true, true
					c.Problems = append(c.Problems, Problem{n.Object, 0, fmt.Sprintf(
						"method %s switches what a method of %s switches: each node needs outlets of its own, else the wrong one is fenced", m.Name, other.Name), false, false})
				}
			}
		}
	}
}

// Steps returns the methods of power_management in the order in which they run, and the index of the first that
// switches power on. All offs come first, however they are listed; otherwise the order does not change.
func Steps(methods []Method) (ordered []Method, firstOn int) {
	ordered = slices.Clone(methods)
	slices.SortStableFunc(ordered, func(a, b Method) int { return rank(a) - rank(b) })
	firstOn = slices.IndexFunc(ordered, func(m Method) bool { return m.Action == On })
	if firstOn < 0 {
		firstOn = len(ordered)
	}
	return ordered, firstOn
}

func rank(m Method) int {
	if m.Action == Off {
		return 0
	}
	return 1
}
