package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// slow contains the slowest tests: the first place to look if a run has to be faster.
type slow []event

const (
	slowest   = 5
	slowSince = 10 // seconds
)

// ended records the end of a test. A test with subtests is replaced by them.
func (s *slow) ended(e *event) {
	if strings.Contains(e.Test, "/") || e.Elapsed < slowSince {
		return
	}
	*s = append(*s, *e)
	slices.SortStableFunc(*s, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	*s = (*s)[:min(len(*s), slowest)]
}

func (s slow) print(out io.Writer) {
	for _, e := range s {
		fmt.Fprintf(out, "slow  %s %s  %.1fs\n", shorten(e.Package), e.Test, e.Elapsed)
	}
}
