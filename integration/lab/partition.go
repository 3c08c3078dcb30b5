package lab

import (
	"fmt"
	"maps"
	"slices"
)

// Each of these changes takes effect before the method returns, at one moment for all nodes and networks.

// Cut splits every network into the groups: no packet passes between two of them. Nodes in no group form one more
// group. Earlier cuts are replaced.
func (l *Lab) Cut(groups ...[]string) error {
	return l.CutNetworks(l.cfg.Networks, groups...)
}

// CutNetwork does the same on one network and does not change the others.
func (l *Lab) CutNetwork(network string, groups ...[]string) error {
	return l.CutNetworks([]string{network}, groups...)
}

// CutNetworks does the same on the named networks.
func (l *Lab) CutNetworks(networks []string, groups ...[]string) error {
	part, err := l.parts(groups)
	if err != nil {
		return err
	}
	indexes, err := l.networkIndexes(networks)
	if err != nil {
		return err
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

// CutOneWay drops the network's packets from one node to the other, but not those in the other direction, in addition
// to other cuts. ARP passes both ways.
func (l *Lab) CutOneWay(network, from, to string) error {
	i, err := l.networkIndex(network)
	if err != nil {
		return err
	}
	a, err := l.nodeIndex(from)
	if err != nil {
		return err
	}
	b, err := l.nodeIndex(to)
	if err != nil {
		return err
	}
	if a == b {
		return fmt.Errorf("lab: cut from %s to itself is impossible", from)
	}
	return l.change(func(barriers map[pair]barrier, _ map[string]float64) {
		if p := (pair{i, a, b}); barriers[p] != cut {
			barriers[p] = mute
		}
	})
}

// Isolate cuts the node off from all others on every network, in addition to other cuts. The node keeps its carrier.
func (l *Lab) Isolate(node string) error {
	a, err := l.nodeIndex(node)
	if err != nil {
		return err
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
func (l *Lab) Loss(network string, percent float64) error {
	if _, err := l.networkIndex(network); err != nil {
		return err
	}
	if !(percent >= 0 && percent <= 100) {
		return fmt.Errorf("lab: a loss of %v %% is not possible: use 0 to 100", percent)
	}
	return l.change(func(_ map[pair]barrier, loss map[string]float64) { loss[network] = percent })
}

// Heal ends all cuts and losses and plugs all cables in.
func (l *Lab) Heal() error {
	err := l.change(func(barriers map[pair]barrier, loss map[string]float64) {
		clear(barriers)
		clear(loss)
	})
	if err != nil {
		return err
	}
	return l.allPortsUp()
}

// change edits copies of the wanted state, so that after an error the record still matches the kernel.
func (l *Lab) change(edit func(barriers map[pair]barrier, loss map[string]float64)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	barriers, loss := maps.Clone(l.barriers), maps.Clone(l.loss)
	edit(barriers, loss)
	if err := l.writeRules(barriers, loss); err != nil {
		return fmt.Errorf("lab: change networks: %w", err)
	}
	l.barriers, l.loss = barriers, loss
	return nil
}

// parts returns the number of each node's part; nodes in no group are in part 0.
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
