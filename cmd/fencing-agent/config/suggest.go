package config

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// meant appends what a misspelt choice was probably meant to be.
func meant(n *yaml.Node, choices []string) string {
	if near := nearest(n.Value, choices); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// nearest returns the word that s was probably meant to be, or "" if none is close:
// at most one wrong letter in three.
func nearest(s string, words []string) string {
	best, least := "", 0
	for _, w := range words {
		d := distance(strings.ToLower(cut(s)), strings.ToLower(w))
		if d <= max(1, len(w)/3) && (best == "" || d < least) {
			best, least = w, d
		}
	}
	return best
}

// distance counts the letters to insert, delete, replace or swap with their neighbour
// until a is b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
