package search

import (
	"fmt"
	"strings"
)

// MaxNodes is the size of the largest group.
const MaxNodes = 5

// Graph is a graph of the network: it contains, for each node, the peers whose answers reach the node.
type Graph struct {
	Name    string
	Answers [MaxNodes]Set
}

// graph parses a text: "123 45" is two cliques, "1-2" is a link, and "1>2" lets 2 answer 1 but not the other way round.
func graph(text string) Graph {
	g := Graph{Name: text}
	for x := range MaxNodes {
		g.Answers[x] = Of(x)
	}
	for _, part := range strings.Fields(text) {
		if len(part) == 3 && (part[1] == '-' || part[1] == '>') {
			a, b := int(part[0]-'1'), int(part[2]-'1')
			g.Answers[a] |= Of(b)
			if part[1] == '-' {
				g.Answers[b] |= Of(a)
			}
			continue
		}
		var clique Set
		for _, c := range part {
			clique |= Of(int(c - '1'))
		}
		for x := range MaxNodes {
			if clique.Has(x) {
				g.Answers[x] |= clique
			}
		}
	}
	return g
}

// Graphs parses a list of texts.
func Graphs(texts ...string) (list []Graph) {
	for _, t := range texts {
		list = append(list, graph(t))
	}
	return list
}

// Every returns all networks of n nodes in which links work in both directions.
func Every(n int) []Graph {
	var links []string
	for y := range n {
		for x := range y {
			links = append(links, fmt.Sprintf("%d-%d", x+1, y+1))
		}
	}
	return subsets(links)
}

// OneWay returns all networks of three nodes whose links may work in one direction.
func OneWay() []Graph { return subsets([]string{"1>2", "2>1", "1>3", "3>1", "2>3", "3>2"}) }

// subsets returns all networks that have some of the links.
func subsets(links []string) (list []Graph) {
	for set := range 1 << len(links) {
		var with []string
		for i, l := range links {
			if set>>i&1 == 1 {
				with = append(with, l)
			}
		}
		list = append(list, graph(strings.Join(with, " ")))
	}
	return list
}
