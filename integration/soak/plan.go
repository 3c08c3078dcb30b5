package soak

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/lab"
)

// Kind is what a fault does.
type Kind string

const (
	Partition  Kind = "partition"   // all networks are cut between two groups
	OneNetwork Kind = "one network" // one network is cut between two groups
	OneWay     Kind = "one way"     // no packet reaches the second node from the first
	Loss       Kind = "loss"        // packets are lost on all networks
	Cable      Kind = "cable"       // a node loses carrier on one network
	Crash      Kind = "crash"       // an agent is killed, and started at the end
	Reboot     Kind = "reboot"      // likewise, in another boot of the kernel
	Freeze     Kind = "freeze"      // an agent is stopped (SIGSTOP), and continued at the end
	Restart    Kind = "restart"     // a planned restart, with a pause in between
	FreezeLUN  Kind = "freeze LUN"  // no write to the LUN ends before the end
)

// Fault is one fault that lasts for a while.
type Fault struct {
	Kind    Kind
	For     time.Duration
	Nodes   []int   // the affected nodes; for a cut they are one group, and the other nodes the second
	Network int     // of OneNetwork and Cable
	Percent float64 // of Loss
}

func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", f.Kind)
	if len(f.Nodes) > 0 {
		b.WriteString(" of")
		for _, n := range f.Nodes {
			b.WriteString(" " + nodeName(n))
		}
	}
	switch f.Kind {
	case OneNetwork, Cable:
		fmt.Fprintf(&b, " on %s", networks[f.Network])
	case Loss:
		fmt.Fprintf(&b, " of %.0f %%", f.Percent)
	}
	fmt.Fprintf(&b, " for %.1fs", f.For.Seconds())
	return b.String()
}

// Round is what happens between two calm periods. The faults begin together.
type Round struct {
	Number int
	Faults []Fault
	Calm   time.Duration // before they begin
}

func (r Round) String() string {
	faults := make([]string, len(r.Faults))
	for i, f := range r.Faults {
		faults[i] = f.String()
	}
	return strings.Join(faults, " + ")
}

// Plan makes rounds.
type Plan struct {
	Seed  uint64
	Nodes int
	// Steady is the number of nodes, the first ones, that are never restarted: leaks are searched for in them.
	Steady int
	LUN    bool // there is a LUN that can be frozen
}

// faultKinds lists all kinds with their share among the faults.
var faultKinds = []struct {
	kind  Kind
	share int
}{
	{Partition, 6}, {OneNetwork, 2}, {OneWay, 2}, {Loss, 2}, {Cable, 2}, {Crash, 3}, {Reboot, 2}, {Freeze, 2}, {Restart, 3}, {FreezeLUN, 1},
}

// Round returns the round with this number. It depends only on the plan and the number.
func (p Plan) Round(number int) Round {
	rng := rand.New(rand.NewPCG(p.Seed, uint64(number)))
	r := Round{Number: number, Calm: seconds(rng, 2, 5)}
	for {
		f := p.fault(rng)
		if !slices.ContainsFunc(r.Faults, func(g Fault) bool { return clash(f, g) }) {
			r.Faults = append(r.Faults, f)
		}
		if len(r.Faults) == 2 || rng.IntN(2) == 0 && len(r.Faults) > 0 {
			return r
		}
	}
}

// clash reports whether two faults together have other effects than each of them separately: they act on the same
// node's process, or both cut the networks.
func clash(f, g Fault) bool {
	cut := func(k Kind) bool { return k == Partition || k == OneNetwork || k == OneWay || k == Cable }
	return f.Kind == g.Kind || cut(f.Kind) && cut(g.Kind) || f.Kind.process() && g.Kind.process() && f.Nodes[0] == g.Nodes[0]
}

// process reports whether the fault acts on an agent's process.
func (k Kind) process() bool { return k == Crash || k == Reboot || k == Freeze || k == Restart }

func (p Plan) fault(rng *rand.Rand) Fault {
	sum := 0
	for _, k := range faultKinds {
		sum += k.share
	}
	f := Fault{}
	for pick, i := rng.IntN(sum), 0; ; i++ {
		if pick -= faultKinds[i].share; pick < 0 {
			f.Kind = faultKinds[i].kind
			break
		}
	}
	if f.Kind == FreezeLUN && !p.LUN {
		f.Kind = OneNetwork
	}
	f.For = seconds(rng, 1, 14)
	f.Network = rng.IntN(len(networks))
	switch f.Kind {
	case Partition, OneNetwork:
		size := 1 + rng.IntN(p.Nodes/2)
		if p.Nodes%2 == 0 && rng.IntN(3) == 0 {
			size = p.Nodes / 2 // an equal split is the hardest case
		}
		f.Nodes = rng.Perm(p.Nodes)[:size]
		slices.Sort(f.Nodes)
	case OneWay:
		f.Nodes = rng.Perm(p.Nodes)[:2]
	case Loss:
		f.Percent = []float64{5, 10, 20}[rng.IntN(3)]
	case Cable, Freeze:
		f.Nodes = []int{rng.IntN(p.Nodes)}
	case Crash, Reboot, Restart:
		f.Nodes = []int{p.Steady + rng.IntN(p.Nodes-p.Steady)}
	}
	return f
}

func seconds(rng *rand.Rand, least, most float64) time.Duration {
	return time.Duration((least + rng.Float64()*(most-least)) * float64(time.Second)).Round(100 * time.Millisecond)
}

// networks are the SystemNetworks of the lab.
var networks = lab.StageNetworks

func nodeName(i int) string { return lab.StageNode(i) }
