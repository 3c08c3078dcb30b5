package main

import "strings"

// fuzzAttempts is how often a target is fuzzed whose only fault was the end of its time.
const fuzzAttempts = 3

// fuzzTimeWasUp reports whether a fuzz target failed for nothing but the end of its time. Up to
// Go 1.26 the fuzzer now and then takes the deadline that it set itself for a failure, most of
// all on a busy machine (https://go.dev/issue/75804). An input that fails, a panic or a hang of
// the target says more than that.
func fuzzTimeWasUp(output, target string) bool {
	_, after, found := strings.Cut(output, "--- FAIL: "+target+" (")
	if !found {
		return false
	}
	_, after, _ = strings.Cut(after, "\n")
	why, _, ended := strings.Cut(after, "\nFAIL\n")
	return ended && strings.TrimSpace(why) == "context deadline exceeded"
}
