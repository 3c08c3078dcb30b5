package main

import (
	"fmt"
	"slices"
	"strings"
)

// raceRuntimeBroke reports whether the output of a test binary that died says only that the race detector's own runtime
// broke. With testing/synctest the runtime may lose track of the timers of a long bubble and abort
// (https://go.dev/issue/78156), whatever the program under test does. A race, a panic or a timeout in the same output
// is a fault of the program.
func raceRuntimeBroke(output string) bool {
	if !strings.Contains(output, "ThreadSanitizer: CHECK failed: tsan_rtl.cpp") {
		return false
	}
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "WARNING: DATA RACE") || strings.HasPrefix(line, "panic: ") ||
			strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(strings.TrimSpace(line), "--- FAIL: ") {
			return false
		}
	}
	return true
}

// postpone removes a package from the counts so that it is run once more; false if it was already run twice.
func (r *report) postpone(pkg string, p *packageRun) bool {
	if r.secondTime {
		return false
	}
	r.again = append(r.again, pkg)
	r.passed -= p.count
	fmt.Fprintf(r.out, "again %s: the race detector's own runtime broke (go.dev/issue/78156) and no test failed; a second time counts\n", shorten(pkg))
	return true
}

// withPackages returns the arguments of go test with these packages in place of the given ones. It is false unless the
// packages were given as relative paths, because other words may be values of flags.
func withPackages(args, packages []string) ([]string, bool) {
	isPath := func(a string) bool { return a == "." || strings.HasPrefix(a, "./") || strings.HasPrefix(a, "../") }
	first := slices.IndexFunc(args, isPath)
	if first < 0 {
		return nil, false
	}
	rest := slices.DeleteFunc(slices.Clone(args[first:]), isPath)
	return slices.Concat(args[:first], packages, rest), true
}
