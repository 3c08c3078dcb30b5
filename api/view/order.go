package view

import (
	"cmp"
	"slices"
	"strings"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// Compare compares names in natural order: node-2 comes before node-10.
func Compare(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		nx, ny := digits(x), digits(y)
		if nx == 0 || ny == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		dx, dy := strings.TrimLeft(x[:nx], "0"), strings.TrimLeft(y[:ny], "0")
		if c := cmp.Or(cmp.Compare(len(dx), len(dy)), cmp.Compare(dx, dy)); c != 0 {
			return c
		}
		x, y = x[nx:], y[ny:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// digits returns the number of digits with which s begins.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// Natural returns the nodes in natural order. The given list is not changed.
func Natural(nodes []*fencingv1.NodeStatus) []*fencingv1.NodeStatus {
	out := slices.Clone(nodes)
	slices.SortStableFunc(out, func(a, b *fencingv1.NodeStatus) int { return Compare(a.GetName(), b.GetName()) })
	return out
}
