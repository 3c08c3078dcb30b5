package main

import "strings"

// fuzzAttempts is how often a target is fuzzed that failed only because its time was up.
const fuzzAttempts = 3

// fuzzTimeWasUp reports whether a fuzz target failed only because its time was up. Up to Go 1.26 the fuzzer sometimes
// treats its own deadline as a failure, mostly on a busy machine (https://go.dev/issue/75804). An input that fails, a
// panic or a hang of the target leaves other output.
func fuzzTimeWasUp(output, target string) bool {
	_, after, found := strings.Cut(output, "--- FAIL: "+target+" (")
	if !found {
		return false
	}
	_, after, _ = strings.Cut(after, "\n")
	why, _, ended := strings.Cut(after, "\nFAIL\n")
	return ended && strings.TrimSpace(why) == "context deadline exceeded"
}
