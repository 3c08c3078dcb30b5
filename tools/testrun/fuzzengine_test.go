package main

import "testing"

// Guard: a target is not fuzzed again until it passes, but only if its time was up.
func TestFuzzTimeWasUp(t *testing.T) {
	const progress = "fuzz: elapsed: 10s, execs: 1234 (0/sec), new interesting: 3 (total: 9)\n"
	for name, c := range map[string]struct {
		output string
		want   bool
	}{
		"its time was up":   {progress + "--- FAIL: FuzzSlot (10.08s)\n    context deadline exceeded\nFAIL\nexit status 1\nFAIL\texample.org/x\t10.1s\n", true},
		"another target":    {progress + "--- FAIL: FuzzSlots (10.08s)\n    context deadline exceeded\nFAIL\nexit status 1\n", false},
		"it passed":         {progress + "PASS\nok  \texample.org/x\t10.1s\n", false},
		"an input fails":    {progress + "--- FAIL: FuzzSlot (0.02s)\n    --- FAIL: FuzzSlot (0.00s)\n        x_test.go:7: context deadline exceeded\n    \n    Failing input written to testdata/fuzz/FuzzSlot/12\nFAIL\n", false},
		"a worker hangs":    {progress + "--- FAIL: FuzzSlot (12.00s)\n    fuzzing process hung or terminated unexpectedly: exit status 2\n    context deadline exceeded\nFAIL\n", false},
		"a seed says so":    {"--- FAIL: FuzzSlot (0.00s)\n    --- FAIL: FuzzSlot/seed#0 (0.00s)\n        x_test.go:7: context deadline exceeded\nFAIL\n", false},
		"it does not build": {"FAIL\texample.org/x [build failed]\n", false},
		"it was cut short":  {"--- FAIL: FuzzSlot (10.08s)\n    context deadline exceeded\n", false},
	} {
		if got := fuzzTimeWasUp(c.output, "FuzzSlot"); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
