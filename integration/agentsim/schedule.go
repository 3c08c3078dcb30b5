package agentsim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Schedule is one run: a group and the events that happen to it.
type Schedule struct {
	Seed        uint64
	Nodes       int
	Networks    int
	AllNetworks bool // reachability: all
	LUN         bool
	API         bool     // the API server is asked for its preference; without LUN it decides alone
	Lease       bool     // a Lease of the API server decides; API must be set, too
	OnLoss      string   // fence, wait
	Mixed       breaking // how the first half of the nodes breaks ties from the beginning
	Members     []int    // the first list of members; nil: all
	Watchdog    time.Duration
	Feed        time.Duration
	Odd         time.Duration // the watchdog's timeout on nodes with an odd index; 0: the same
	Late        string        // the driver of watchdogs on nodes with an even index, which fires late as documented; empty: one that keeps its timeout
	Reboot      time.Duration // the time from the reset to the start of the agent
	DryRun      bool          // driver none
	SlowClose   time.Duration // the time that an agent that stops needs to close its sockets
	NoWayOut    bool          // watchdogs that cannot be disarmed
	Hides       bool          // the countdown of a watchdog cannot be seen without opening it
	NoSentence  bool          // watchdog.selfFence: none
	Quiet       bool          // no node announces news; not with Key
	MaxAge      time.Duration // D_max; 0: the default; not with Key
	Replay      bool          // an attacker replays traffic at any time
	Key         bool          // the gossip is encrypted
	Before      int           // this many nodes, the first ones, have lun.hold: false, like agents from before that key existed
	LUNMode     string        // lun.mode; empty: tiebreaker. The checker judges by the networks, and so judges no schedule with another mode
	LUNLoss     bool          // watchdog.selfFence: quorum-or-lun; with LUNMode
	Unjudged    bool          // the run is only observed: nothing that happens is a violation
	Events      []Event
	End         time.Duration
}

// Kind is a kind of event.
type Kind uint8

const (
	Nothing     Kind = iota
	Split            // the parts cannot reach each other on Networks
	OneWay           // Nodes[0] does not reach Nodes[1] on Networks
	Heal             // ends all cuts, losses and delays
	Loss             // Share of all packets is lost
	Delay            // packets take up to Span
	Carrier          // Nodes lose carrier on Networks
	CarrierBack      // everybody has carrier again
	Kill             // SIGKILL
	Start            // starts every agent that does not run
	Restart          // SIGKILL, and a new agent at once
	Upgrade          // SIGTERM, and a new agent after Span
	Freeze           // SIGSTOP, for Span
	Suspend          // the same for the machine with its networks
	HangLoop         // the deciding loop of Nodes hangs for Span, and everything else goes on
	LUNHang          // operations of Nodes on the LUN hang
	LUNError         // Share of the operations of Nodes fails
	LUNReadOnly      // writes of Nodes fail
	LUNSlow          // operations of Nodes take up to Span, and Share of it at least
	LUNBack          // the LUN is back for everybody; operations that hung land, fail, or both
	APIDown          // for Nodes the API server refuses or is slow
	APIBack          // everybody reaches the API server again
	NewMembers       // the list of members is Nodes, in the files of Parts[0] and of the nodes that are added
	Disable          // the disable files of Nodes are created
	Enable           // and removed
	FeedFails        // the watchdogs of Nodes refuse to be fed
	Look             // the agents of Nodes are asked for their status
	Reconfigure      // the agents of Nodes break ties by breaking(Pick) after a restart: a kill, or a planned one that takes Span
	PowerOff         // Nodes lose power for good, without a message
	Confirm          // an operator on Nodes[0] reports that Nodes[1] is dead
	Fence            // an operator on Nodes[0] orders Nodes[1] to end
)

var kindNames = [...]string{
	"nothing", "split", "one way", "heal", "loss", "delay", "carrier", "carrier back", "kill", "start", "restart", "upgrade", "freeze",
	"suspend", "hung loop", "LUN hangs", "LUN errors", "LUN read-only", "LUN slow", "LUN back", "API down", "API back", "new list of members",
	"disable file", "no disable file", "feed fails", "look", "other tie-break", "power off", "confirmed dead", "order",
}

// String is the kind's name in tables.
func (k Kind) String() string { return kindNames[k] }

// Event is one change of conditions.
type Event struct {
	At       time.Duration
	Kind     Kind
	Nodes    []int
	Parts    [][]int
	Networks []int
	Span     time.Duration
	Share    float64
	Pick     int // chooses among the outcomes of what hung
}

// times are the terms of the published horizon. With samples, maxAge is longer than D_max, because a sample may still
// be answered when too many peers are gone.
type times struct {
	maxAge, arbitrate, grant, feed, watchdog time.Duration
	dead                                     time.Duration // T_dead after an equal split
}

func (s *Schedule) timing() times {
	c := s.agentConfig(0, "/nonexistent", 0, s.everybody(), asAll)
	b := c.Budget(s.latest())
	return times{b.MaxAge + b.Sampling, b.Arbitrate, b.Grant, b.Feed, b.Watchdog, b.Tie()}
}

// latest is the longest time after a feed at which any of the watchdogs fires.
func (s *Schedule) latest() time.Duration { return max(measuredOf(s.Late).Latest(s.Watchdog), s.Odd) }

// driver is the name of a node's watchdog driver.
func (s *Schedule) driver(node int) string {
	if node%2 == 1 {
		return ""
	}
	return s.Late
}

func (s *Schedule) everybody() []int {
	list := make([]int, s.Nodes)
	for i := range list {
		list[i] = i
	}
	return list
}

func (s *Schedule) members() []int {
	if s.Members == nil {
		return s.everybody()
	}
	return s.Members
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

func nodeIndex(name string) int {
	var i int
	if _, err := fmt.Sscanf(name, "n%d", &i); err != nil {
		return -1
	}
	return i - 1
}

// These settings of the agents do not matter to the schedule: they only appear in a status.
const (
	clusterName  = "prod"
	groupName    = "storage"
	lunPathName  = "/dev/mapper/fence"
	agentVersion = "v0.1.0"
)

var (
	networkNames   = [...]string{"mgmt", "data"}
	interfaceNames = map[string]string{"mgmt": "eth0", "data": "bond0"}
)

func disablePath(dir string, node int) string {
	return filepath.Join(dir, nodeName(node)+".disable")
}

// yaml returns the configuration file of one node's agent, with a list of members. The agent stores its data in dir.
func (s *Schedule) yaml(node int, dir string, epoch int, members []int, breaks breaking) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster: "+clusterName+"\nnodeName: %s\nnodeGroup: "+groupName+"\nmembers:\n  source: static\n  epoch: %d\n  cacheFile: %s\n  static:\n",
		nodeName(node), epoch, filepath.Join(dir, nodeName(node)+".members.json"))
	for _, i := range members {
		fmt.Fprintf(&b, "    - name: %s\n      addresses: {", nodeName(i))
		for k := range s.Networks {
			fmt.Fprintf(&b, "%s: %s, ", networkNames[k], addressOf(k, i))
		}
		b.WriteString("}\n")
	}
	b.WriteString("systemNetworks:\n")
	for k := range s.Networks {
		fmt.Fprintf(&b, "  - {name: %s, at: %s, port: 7946}\n", networkNames[k], addressOf(k, node))
	}
	if s.AllNetworks {
		b.WriteString("reachability: all\n")
	}
	api, lun := s.API || s.LUN && breaks == apiAlone, s.LUN && breaks != apiAlone
	if api {
		fmt.Fprintf(&b, "kubernetes: {kubeconfig: %s, node: ignore}\n", filepath.Join(dir, kubeconfigName))
	}
	devices := "[]"
	if lun {
		devices = "[" + breaks.path() + "]"
	}
	fmt.Fprintf(&b, "lun: {devices: %s, heartbeatInterval: 500ms, ioTimeout: 1s, hold: %t, mode: %s}\n", devices, node >= s.Before, cmp.Or(s.LUNMode, "tiebreaker"))
	tieBreak := "none"
	switch {
	case s.API && s.Lease:
		tieBreak = "lease"
	case api && lun:
		tieBreak = "auto"
	case api:
		tieBreak = "kubernetes"
	case lun:
		tieBreak = "lun"
	}
	fmt.Fprintf(&b, "quorum: {tieBreak: %s}\nonQuorumLoss: %s\n", tieBreak, s.OnLoss)
	timeout := s.Watchdog
	if s.Odd > 0 && node%2 == 1 {
		timeout = s.Odd
	}
	driver := "device"
	if s.DryRun {
		driver = "none"
	}
	fmt.Fprintf(&b, "watchdog: {driver: %s, timeout: %v, disableFile: %s, selfFence: %s}\n", driver, timeout, disablePath(dir, node), s.selfFence())
	fmt.Fprintf(&b, "experimental: {historyMegabytes: 0, feedInterval: %v", s.Feed)
	if s.MaxAge > 0 {
		fmt.Fprintf(&b, ", evidenceMaxAge: %v", s.MaxAge)
	}
	b.WriteString("}\n")
	if s.Key {
		fmt.Fprintf(&b, "gossip: {keyFile: %s}\n", filepath.Join(dir, keyFileName))
	}
	b.WriteString("api: {socket: /nonexistent/fencing-agent.sock}\nhttp: {address: \"\"}\n")
	return b.String()
}

func (s *Schedule) describe() string {
	breaker := "no tie-breaker"
	if s.LUN {
		breaker = "a LUN"
	}
	switch {
	case s.Lease:
		breaker = "a Lease"
	case s.API && s.LUN:
		breaker += ", the API preferred"
	case s.API:
		breaker = "the API reached"
	}
	policy := "any"
	if s.AllNetworks {
		policy = "all"
	}
	attack := ""
	if s.Before > 0 {
		attack = fmt.Sprintf(", %d without hold", s.Before)
	}
	switch {
	case s.Replay && s.Key:
		attack += ", replayed although a key is in use"
	case s.Replay:
		attack += ", replayed"
	}
	late := ""
	if s.Late != "" {
		late = " of " + s.Late
	}
	t := s.timing()
	return fmt.Sprintf("seed %d: %d nodes, %d networks (%s%s), %s, onQuorumLoss %s, watchdog %v%s, on odd nodes %v, fed every %v, D_max %v, A %v, T_dead %v, reboot %v",
		s.Seed, s.Nodes, s.Networks, policy, attack, breaker, s.OnLoss, s.Watchdog, late, cmp.Or(s.Odd, s.Watchdog), s.Feed, t.maxAge, t.arbitrate, t.dead, s.Reboot)
}

// Random creates a schedule of a small group from a seed.
func Random(seed uint64) Schedule { return draw(seed, 2, 3, 4, 4, 4, 5, 6, 7) }

// draw creates a schedule of a group of one of these sizes.
func draw(seed uint64, sizes ...int) Schedule {
	rng := rand.New(rand.NewPCG(seed, 0xa9e27))
	s := Schedule{
		Seed: seed, Nodes: sizes[rng.IntN(len(sizes))], Networks: 1 + rng.IntN(2),
		LUN: rng.IntN(5) > 0, API: rng.IntN(3) == 0, OnLoss: "fence",
		Watchdog: 6 * time.Second, Feed: time.Second, Reboot: time.Duration(4+rng.IntN(20)) * time.Second,
	}
	s.AllNetworks = s.Networks > 1 && rng.IntN(4) == 0
	s.API = s.API && s.LUN // without a LUN the API server lets both halves live, by design
	if rng.IntN(10) == 0 {
		s.OnLoss = "wait"
	}
	at := 12 * time.Second
	if rng.IntN(3) == 0 {
		at = healthyFor
	}
	s.drawLease()
	s.drawOdd()
	s.drawLate()
	s.drawReplay()
	if s.Lease && at == healthyFor {
		at = s.seasoned()
	}
	d := &dealer{rng: rng, s: &s}
	for i := range 6 + rng.IntN(6) {
		e := d.event()
		if i == 0 && at >= healthyFor {
			e = d.halves()
		}
		e.At = at
		s.Events = append(s.Events, e)
		at += time.Second + time.Duration(rng.Int64N(int64(18*time.Second)))
		if e.Kind == Split && rng.IntN(2) == 0 {
			at += 27 * time.Second // more than T_dead
		}
	}
	s.End = at + 15*time.Second
	s.silence(rand.New(rand.NewPCG(seed, 0x51e4ce)))
	s.changeBreaking(rand.New(rand.NewPCG(seed, 0x7e2a5)))
	s.changeMembers(rand.New(rand.NewPCG(seed, 0x115)))
	s.tellDeaths(rand.New(rand.NewPCG(seed, 0x70fd)))
	s.giveOrders(rand.New(rand.NewPCG(seed, 0x0bde)))
	return s
}

// silence adds outages of all networks to half of the groups with a LUN. In a fifth of all groups some nodes, or all,
// have agents that do not know lun.hold.
func (s *Schedule) silence(rng *rand.Rand) {
	if rng.IntN(5) == 0 {
		s.Before = 1 + rng.IntN(s.Nodes)
	}
	if !s.LUN || rng.IntN(2) == 0 {
		return
	}
	var alone [][]int
	for i := range s.Nodes {
		alone = append(alone, []int{i})
	}
	for range 1 + rng.IntN(2) {
		at := s.Events[rng.IntN(len(s.Events))].At + time.Duration(rng.Int64N(int64(10*time.Second)))
		s.Events = append(s.Events, Event{At: at, Kind: Split, Parts: alone, Networks: rng.Perm(s.Networks)})
	}
	s.inOrder(0)
	s.End = max(s.End, s.Events[len(s.Events)-1].At+15*time.Second)
}

// inOrder sorts the events after some were added. None ends before until.
func (s *Schedule) inOrder(until time.Duration) {
	slices.SortStableFunc(s.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	s.End = max(s.End, until)
}

// drawLease gives a Lease to half of the groups without a LUN.
func (s *Schedule) drawLease() {
	if rng := rand.New(rand.NewPCG(s.Seed, 0x1ea5e)); !s.LUN && rng.IntN(2) == 0 {
		s.API, s.Lease = true, true
	}
}

// drawOdd gives watchdogs with two different timeouts to a third of the groups.
func (s *Schedule) drawOdd() {
	if rng := rand.New(rand.NewPCG(s.Seed, 0x0dd)); rng.IntN(3) == 0 {
		s.Odd = time.Duration(4+rng.IntN(27)) * time.Second
	}
}

// drawLate gives watchdogs that fire late to a quarter of the groups.
func (s *Schedule) drawLate() {
	rng := rand.New(rand.NewPCG(s.Seed, 0x17c0))
	if drivers := []string{"iTCO_wdt", measuredDriver, "IB700 WDT"}; rng.IntN(4) == 0 {
		s.Late = drivers[rng.IntN(len(drivers))]
	}
}

// seasoned is the time for which a group with a Lease is left alone before the first write can decide a split: the
// Lease's content must have been seen for its expiry time.
func (s *Schedule) seasoned() time.Duration {
	c := s.agentConfig(0, "/nonexistent", 0, s.everybody(), asAll)
	c.Watchdog.Timeout = s.latest()
	return healthyFor + c.LeaseExpiry(s.Nodes)
}

// oneHalf reports whether there is something that lets at most one half live.
func (s *Schedule) oneHalf() bool { return s.LUN || s.Lease }

type dealer struct {
	rng *rand.Rand
	s   *Schedule
}

func (d *dealer) event() Event {
	rng := d.rng
	e := Event{Kind: Kind(1 + rng.IntN(int(APIBack))), Networks: d.networks(), Nodes: d.nodes(), Pick: rng.IntN(4)}
	switch rng.IntN(4) {
	case 0:
		e.Kind = Split
	case 1:
		if rng.IntN(2) == 0 {
			e.Kind = Heal
		}
	}
	switch e.Kind {
	case Split:
		e.Parts = d.parts()
	case OneWay:
		e.Nodes = rng.Perm(d.s.Nodes)[:2]
	case Loss:
		e.Share = []float64{0.01, 0.03, 0.05, 0.2, 0.4}[rng.IntN(5)]
	case Delay:
		e.Span = time.Duration(1+rng.IntN(20)) * time.Millisecond
	case Kill, Restart, Upgrade:
		e.Nodes = e.Nodes[:1]
		e.Span = time.Duration(1+rng.IntN(4)) * time.Second
	case Freeze, Suspend, HangLoop:
		e.Span = []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second, 5 * time.Second, 10 * time.Second}[rng.IntN(5)]
	case LUNError:
		e.Share = []float64{0.1, 0.5, 1}[rng.IntN(3)]
	case LUNSlow:
		e.Span = time.Duration(1+rng.IntN(30)) * 100 * time.Millisecond
	}
	if !d.s.LUN && e.Kind >= LUNHang && !(d.s.Lease && e.Kind >= APIDown) {
		e.Kind = Heal
	}
	return e
}

// halves draws an equal split on all networks, or a split that is almost equal.
func (d *dealer) halves() Event {
	p := d.rng.Perm(d.s.Nodes)
	return Event{Kind: Split, Parts: [][]int{p[:d.s.Nodes/2], p[d.s.Nodes/2:]}, Networks: d.rng.Perm(d.s.Networks)}
}

// nodes draws one node, a few or all.
func (d *dealer) nodes() []int {
	p := d.rng.Perm(d.s.Nodes)
	switch d.rng.IntN(4) {
	case 0:
		return p
	case 1:
		return p[:(d.s.Nodes+1)/2]
	default:
		return p[:1]
	}
}

func (d *dealer) networks() []int {
	all := d.rng.Perm(d.s.Networks)
	if d.rng.IntN(3) == 0 {
		return all[:1]
	}
	return all
}

// parts cuts the nodes into two equal parts, two unequal ones or three.
func (d *dealer) parts() [][]int {
	p := d.rng.Perm(d.s.Nodes)
	switch at := 1 + d.rng.IntN(d.s.Nodes-1); d.rng.IntN(4) {
	case 0, 1:
		return d.halves().Parts
	case 2:
		return [][]int{p[:at], p[at:]}
	default:
		mid := at + d.rng.IntN(d.s.Nodes-at+1)
		return [][]int{p[:at], p[at:mid], p[mid:]}
	}
}
