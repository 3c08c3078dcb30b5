package gossipsim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is what a fault does.
type Kind string

const (
	Crash     Kind = "crash"     // the machine is gone at once; at the end it boots again
	Restart   Kind = "restart"   // the agent ends without notice; at the end a new one starts
	Leave     Kind = "leave"     // the agent gives notice and ends; at the end a new one starts
	Isolate   Kind = "isolate"   // nothing gets to or from the node
	Unplug    Kind = "unplug"    // the same, and the node's own kernel reports it
	Mute      Kind = "mute"      // nothing gets out of the node
	Deaf      Kind = "deaf"      // nothing gets into the node
	Partition Kind = "partition" // nothing gets from one side to another
	CutOneWay Kind = "one-way"   // nothing gets from the first node to the second
	Impair    Kind = "impair"    // all links lose, delay or duplicate packets
	Slow      Kind = "slow"      // the node's packets repeatedly wait, in both directions
	Lie       Kind = "lie"       // the node reports, in its own name and in those of others, that every node is silent
)

// Fault is a fault that begins at a certain time and may end again.
type Fault struct {
	Kind     Kind
	At       time.Duration // after the warm-up
	For      time.Duration // 0: for good
	Nodes    []int         // the affected nodes
	Networks []int         // empty: all
	Sides    []int         // of a partition: the side of each node
	Link     *Link         // for Impair
	Blocked  time.Duration // for Slow
	Open     time.Duration
}

// String describes the fault in a line.
func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s", f.At, f.Kind)
	if f.For > 0 {
		fmt.Fprintf(&b, " for %v", f.For)
	}
	if len(f.Nodes) > 0 {
		fmt.Fprintf(&b, " of %v", f.Nodes)
	}
	if len(f.Sides) > 0 {
		sizes := make([]int, slices.Max(f.Sides)+1)
		for _, s := range f.Sides {
			sizes[s]++
		}
		fmt.Fprintf(&b, " into %v", sizes)
	}
	if len(f.Networks) > 0 {
		fmt.Fprintf(&b, " on networks %v", f.Networks)
	}
	if f.Link != nil {
		fmt.Fprintf(&b, " %+v", *f.Link)
	}
	if f.Blocked > 0 {
		fmt.Fprintf(&b, " (%v blocked, %v open)", f.Blocked, f.Open)
	}
	return b.String()
}

// touches returns, as a bit mask, the networks of k on which the fault disturbs packets between two nodes. Loss and
// slowness do not count as faults, because nodes have to survive them.
func (f Fault) touches(a, b, k int) uint64 {
	hit := slices.Contains(f.Nodes, a) || slices.Contains(f.Nodes, b)
	switch f.Kind {
	case Partition:
		hit = f.Sides[a] != f.Sides[b]
	case CutOneWay:
		hit = slices.Contains(f.Nodes, a) && slices.Contains(f.Nodes, b)
	case Impair, Slow, Lie:
		hit = false
	}
	if !hit {
		return 0
	}
	var mask uint64
	for n := range k {
		if len(f.Networks) == 0 || slices.Contains(f.Networks, n) {
			mask |= 1 << n
		}
	}
	return mask
}

// Scenario is a named way to make a schedule.
type Scenario struct {
	Name string
	What string
	// Measured: detection is measured from the schedule's first event or, with AtEnd, from the end of that event.
	Measured, AtEnd bool
	// Each is the kind of faults from whose beginnings detection is measured, one after the other.
	Each   Kind
	faults func(c *Config, r *rand.Rand) []Fault
}

// Scenarios lists all scenarios.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "idle", What: "nothing happens: traffic", faults: func(*Config, *rand.Rand) []Fault { return nil }},
		{Name: "crash", What: "a machine is gone", Measured: true, faults: one(Crash)},
		{Name: "crash-five", What: "five machines are gone at once", Measured: true, faults: gone(func(int) int { return 5 })},
		{Name: "crash-tenth", What: "a tenth of the machines is gone at once", Measured: true, faults: gone(func(n int) int { return n / 10 })},
		{Name: "crash-half", What: "half of the machines but one are gone at once", Measured: true, faults: gone(func(n int) int { return n/2 - 1 })},
		{Name: "crash-series", What: "a machine is gone every --every, a tenth in the end", Each: Crash, faults: series},
		{Name: "dead-switch", What: "the first network is dead, and 10 s later a machine is gone", Each: Crash, faults: deadSwitch},
		{Name: "rack", What: "a tenth, neighbours in the list, is cut off on all networks", Measured: true, faults: rack(0)},
		{Name: "rack-blink", What: "likewise, for --stall of every --every", faults: blinks},
		{Name: "liar", What: "a member says that all are silent, beside slow ones; then a crash", Each: Crash, faults: liars},
		{Name: "isolate", What: "a node is cut off on all networks", Measured: true, faults: one(Isolate)},
		{Name: "unplug", What: "likewise, and its kernel says so at once", Measured: true, faults: one(Unplug)},
		{Name: "mute", What: "nothing gets out of a node any more", Measured: true, faults: one(Mute)},
		{Name: "deaf", What: "nothing gets into a node any more", Measured: true, faults: one(Deaf)},
		{Name: "split", What: "all networks are cut into equal parts", Measured: true, faults: split()},
		{Name: "heal", What: "a split of 40 s ends", Measured: true, AtEnd: true, faults: heal(40 * time.Second)},
		{Name: "short-split", What: "a split of 8 s ends: late rumours of deaths", Measured: true, AtEnd: true, faults: heal(8 * time.Second)},
		{Name: "one-network", What: "the first network is cut into halves, the others are not", faults: split(0)},
		{Name: "leave", What: "an agent says goodbye and ends", Measured: true, faults: one(Leave)},
		{Name: "restart", What: "an agent is back after a second", faults: restart},
		{Name: "start", What: "all agents start again within a second: traffic", faults: start},
		{Name: "loss", What: "packets get lost on all links, a tenth unless told otherwise", faults: loss},
		{Name: "slow", What: "a tenth of the nodes stands still for --stall again and again", faults: slow},
		{Name: "flap", What: "a node is cut off for 2 s of every 5 s", faults: flap},
		{Name: "chaos", What: "random faults, one after the other", faults: chaos},
	}
}

// FindScenario returns the scenario with the name.
func FindScenario(name string) (Scenario, error) {
	all := Scenarios()
	if i := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name }); i >= 0 {
		return all[i], nil
	}
	return Scenario{}, fmt.Errorf("the scenario is %q, but must be one of %s", name, strings.Join(ScenarioNames(), ", "))
}

// ScenarioNames lists the names of all scenarios.
func ScenarioNames() []string {
	var names []string
	for _, s := range Scenarios() {
		names = append(names, s.Name)
	}
	return names
}

// Schedule lists the events of a simulation. The same configuration gives the same schedule.
func (c *Config) Schedule() ([]Fault, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s, err := FindScenario(c.Scenario)
	if err != nil {
		return nil, err
	}
	return s.faults(c, rand.New(rand.NewPCG(c.Seed, 0x5eed))), nil
}

// phase spreads the first event over a second, so that it does not always hit the same phase of the tickers that the
// boot has started.
func phase(r *rand.Rand) time.Duration { return time.Duration(r.Int64N(int64(time.Second))) }

func one(k Kind) func(*Config, *rand.Rand) []Fault {
	return func(c *Config, r *rand.Rand) []Fault {
		return []Fault{{Kind: k, At: phase(r), Nodes: []int{r.IntN(c.Nodes)}}}
	}
}

// gone makes this number of nodes crash at one instant.
func gone(count func(nodes int) int) func(*Config, *rand.Rand) []Fault {
	return func(c *Config, r *rand.Rand) []Fault {
		at := phase(r)
		return []Fault{{Kind: Crash, At: at, Nodes: r.Perm(c.Nodes)[:min(c.Nodes, max(1, count(c.Nodes)))]}}
	}
}

// series makes one machine after the other crash. None of them comes back.
func series(c *Config, r *rand.Rand) []Fault {
	var faults []Fault
	victims := r.Perm(c.Nodes)[:max(1, c.Nodes/10)]
	for at := phase(r); len(faults) < len(victims) && at < c.Duration; at += c.Every {
		faults = append(faults, Fault{Kind: Crash, At: at, Nodes: victims[len(faults) : len(faults)+1]})
	}
	return faults
}

// deadSwitch cuts all nodes from each other on the first network.
func deadSwitch(c *Config, r *rand.Rand) []Fault {
	dead := Fault{Kind: Isolate, Nodes: r.Perm(c.Nodes), Networks: []int{0}}
	return []Fault{dead, {Kind: Crash, At: min(c.Duration, 10*time.Second+phase(r)), Nodes: []int{r.IntN(c.Nodes)}}}
}

// rack cuts off a tenth of the nodes. They still reach each other.
func rack(after time.Duration) func(*Config, *rand.Rand) []Fault {
	return func(c *Config, r *rand.Rand) []Fault {
		f := Fault{Kind: Partition, At: phase(r), For: after, Sides: make([]int, c.Nodes)}
		for i, first := 0, r.IntN(c.Nodes); i < max(1, c.Nodes/10); i++ {
			f.Sides[(first+i)%c.Nodes] = 1
		}
		return []Fault{f}
	}
}

func blinks(c *Config, r *rand.Rand) []Fault {
	var faults []Fault
	for at := time.Duration(0); at+c.Every <= c.Duration || at == 0; at += c.Every {
		f := rack(c.Stall)(c, r)[0]
		f.At = min(at+f.At, c.Duration)
		faults = append(faults, f)
	}
	return faults
}

// liars makes one node lie. Several liars could agree, and three reports about a stalled node are believed.
func liars(c *Config, r *rand.Rand) []Fault {
	nodes := r.Perm(c.Nodes)
	faults := []Fault{{Kind: Lie, Nodes: nodes[:1]}}
	if c.Nodes > 2 {
		for _, n := range nodes[2 : 2+max(1, (c.Nodes-2)/10)] {
			faults = append(faults, slowly(c, n, phase(r)))
		}
	}
	return append(faults, Fault{Kind: Crash, At: c.Duration * 3 / 4, Nodes: nodes[1:2]})
}

// slowly makes a node stall repeatedly.
func slowly(c *Config, node int, at time.Duration) Fault {
	return Fault{Kind: Slow, At: at, Nodes: []int{node}, Blocked: c.Stall, Open: 250 * time.Millisecond}
}

// split cuts the given networks, or all if none is given, into equal parts.
func split(networks ...int) func(*Config, *rand.Rand) []Fault {
	return func(c *Config, r *rand.Rand) []Fault {
		return []Fault{{Kind: Partition, At: phase(r), Sides: sides(c.Nodes, c.Parts, r), Networks: networks}}
	}
}

// sides assigns nodes to parts at random; the parts are as equal as possible.
func sides(nodes, parts int, r *rand.Rand) []int {
	s := make([]int, nodes)
	for place, node := range r.Perm(nodes) {
		s[node] = place * parts / nodes
	}
	return s
}

func heal(after time.Duration) func(*Config, *rand.Rand) []Fault {
	return func(c *Config, r *rand.Rand) []Fault {
		f := split()(c, r)
		f[0].For = after
		return f
	}
}

func restart(c *Config, r *rand.Rand) []Fault {
	f := one(Restart)(c, r)
	f[0].For = time.Second
	return f
}

// start ends all agents for a second, so that they forget everything about each other.
func start(c *Config, r *rand.Rand) []Fault {
	var faults []Fault
	for place, node := range r.Perm(c.Nodes) {
		back := time.Second * time.Duration(place) / time.Duration(c.Nodes)
		faults = append(faults, Fault{Kind: Restart, For: time.Second + back, Nodes: []int{node}})
	}
	return faults
}

func loss(c *Config, _ *rand.Rand) []Fault {
	l := c.Link
	if l.Loss == 0 {
		l.Loss = 0.1
	}
	return []Fault{{Kind: Impair, Link: &l}}
}

func slow(c *Config, r *rand.Rand) []Fault {
	var faults []Fault
	for _, n := range r.Perm(c.Nodes)[:max(1, c.Nodes/10)] {
		faults = append(faults, slowly(c, n, phase(r)))
	}
	return faults
}

func flap(c *Config, r *rand.Rand) []Fault {
	node := r.IntN(c.Nodes)
	var faults []Fault
	for at := phase(r); at < c.Duration; at += 5 * time.Second {
		faults = append(faults, Fault{Kind: Isolate, At: at, For: 2 * time.Second, Nodes: []int{node}})
	}
	return faults
}

// chaos makes faults of up to 12 s with pauses of up to 8 s between them.
func chaos(c *Config, r *rand.Rand) []Fault {
	kinds := []Kind{Crash, Restart, Leave, Isolate, Unplug, Mute, Deaf, Partition, Partition, CutOneWay, Impair, Slow}
	var faults []Fault
	for at := phase(r); ; {
		f := Fault{Kind: kinds[r.IntN(len(kinds))], At: at, For: 500*time.Millisecond + time.Duration(r.Int64N(int64(12*time.Second)))}
		if r.IntN(3) == 0 {
			f.Networks = []int{r.IntN(c.Networks)}
		}
		nodes := r.Perm(c.Nodes)
		switch f.Kind {
		case Partition:
			f.Sides = sides(c.Nodes, 2+r.IntN(2), r)
		case Impair:
			l := c.Link
			l.Loss, l.Duplicate, l.Jitter = r.Float64()/5, r.Float64()/10, time.Duration(r.Int64N(int64(20*time.Millisecond)))
			f.Link = &l
		case CutOneWay:
			f.Nodes = nodes[:2]
		case Crash, Restart, Leave, Slow:
			f.Networks = nil
			f.Nodes = nodes[:1]
		default:
			f.Nodes = nodes[:1+r.IntN(max(1, c.Nodes/4))]
		}
		if f.Kind == Slow {
			f.Blocked, f.Open = time.Second, 250*time.Millisecond
		}
		if f.At+f.For > c.Duration {
			return faults
		}
		faults = append(faults, f)
		at += f.For + time.Duration(r.Int64N(int64(8*time.Second)))
	}
}
