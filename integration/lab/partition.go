package lab

import (
	"fmt"
	"maps"
	"slices"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// Change is a change of the networks: it took effect at one moment between Began
// and Landed, for all nodes and networks at once.
type Change struct {
	Began, Landed boottime.Instant
}

// Cut splits every network into the groups: no packet passes between two of them.
// Nodes in no group form one more. Earlier cuts are replaced.
func (l *Lab) Cut(groups ...[]string) (Change, error) {
	return l.CutNetworks(l.cfg.Networks, groups...)
}

// CutNetwork does the same to one network and leaves the others as they are.
func (l *Lab) CutNetwork(network string, groups ...[]string) (Change, error) {
	return l.CutNetworks([]string{network}, groups...)
}

// CutNetworks does the same to the named networks.
func (l *Lab) CutNetworks(networks []string, groups ...[]string) (Change, error) {
	part, err := l.parts(groups)
	if err != nil {
		return Change{}, err
	}
	indexes, err := l.networkIndexes(networks)
	if err != nil {
		return Change{}, err
	}
	return l.change(func(barriers map[pair]barrier, _ map[string]float64) {
		maps.DeleteFunc(barriers, func(p pair, _ barrier) bool { return slices.Contains(indexes, p.network) })
		for _, i := range indexes {
			for from := range part {
				for to := range part {
					if part[from] != part[to] {
						barriers[pair{i, from, to}] = cut
					}
				}
			}
		}
	})
}

// CutOneWay drops the packets of the network from one node to the other, in addition to other cuts. Packets in the
// other direction pass. ARP passes both ways.
func (l *Lab) CutOneWay(network, from, to string) (Change, error) {
	i, err := l.networkIndex(network)
	if err != nil {
		return Change{}, err
	}
	a, err := l.nodeIndex(from)
	if err != nil {
		return Change{}, err
	}
	b, err := l.nodeIndex(to)
	if err != nil {
		return Change{}, err
	}
	if a == b {
		return Change{}, fmt.Errorf("lab: cut from %s to itself is impossible", from)
	}
	return l.change(func(barriers map[pair]barrier, _ map[string]float64) {
		if p := (pair{i, a, b}); barriers[p] != cut {
			barriers[p] = mute
		}
	})
}

// Isolate cuts the node off from all others on every network, in addition to other
// cuts. It keeps its carrier.
func (l *Lab) Isolate(node string) (Change, error) {
	a, err := l.nodeIndex(node)
	if err != nil {
		return Change{}, err
	}
	return l.change(func(barriers map[pair]barrier, _ map[string]float64) {
		for i := range l.cfg.Networks {
			for b := range l.cfg.Nodes {
				if a != b {
					barriers[pair{i, a, b}], barriers[pair{i, b, a}] = cut, cut
				}
			}
		}
	})
}

// Loss drops packets of the network at random, in percent (0 to 100); 0 ends it.
func (l *Lab) Loss(network string, percent float64) (Change, error) {
	if _, err := l.networkIndex(network); err != nil {
		return Change{}, err
	}
	if !(percent >= 0 && percent <= 100) {
		return Change{}, fmt.Errorf("lab: loss of %v %%: possible are 0 to 100", percent)
	}
	return l.change(func(_ map[pair]barrier, loss map[string]float64) { loss[network] = percent })
}

// Heal ends all cuts and losses and plugs all cables in.
func (l *Lab) Heal() (Change, error) {
	healed, err := l.change(func(barriers map[pair]barrier, loss map[string]float64) {
		clear(barriers)
		clear(loss)
	})
	if err != nil {
		return healed, err
	}
	if err := l.allPortsUp(); err != nil {
		return healed, err
	}
	healed.Landed = boottime.Now()
	return healed, nil
}

// change edits copies of the wanted state, so that after an error the record still matches the kernel.
func (l *Lab) change(edit func(barriers map[pair]barrier, loss map[string]float64)) (Change, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return Change{}, errClosed
	}
	barriers, loss := maps.Clone(l.barriers), maps.Clone(l.loss)
	edit(barriers, loss)
	began := boottime.Now()
	if err := l.writeRules(barriers, loss); err != nil {
		return Change{}, fmt.Errorf("lab: change networks: %w", err)
	}
	l.barriers, l.loss = barriers, loss
	return Change{Began: began, Landed: boottime.Now()}, nil
}

// parts numbers the part of each node; nodes in no group are in part 0.
func (l *Lab) parts(groups [][]string) ([]int, error) {
	part := make([]int, len(l.cfg.Nodes))
	for g, group := range groups {
		for _, node := range group {
			j, err := l.nodeIndex(node)
			if err != nil {
				return nil, err
			}
			if part[j] != 0 {
				return nil, fmt.Errorf("lab: node %s is listed twice in the groups of a cut", node)
			}
			part[j] = g + 1
		}
	}
	return part, nil
}

func (l *Lab) networkIndexes(networks []string) ([]int, error) {
	var out []int
	for _, network := range networks {
		i, err := l.networkIndex(network)
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, nil
}
