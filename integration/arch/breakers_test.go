package arch

import (
	"fmt"
	"go/ast"
	"slices"
	"testing"
)

// breakerNames lists the identifiers with which code asks which tie-breaker is used.
var breakerNames = []string{
	"BreakerLUN", "BreakerKubernetes", "UsesLease", "BreaksByLUN", "BreaksByAPI", "BreaksByLease", "AsksAPI", "bySlots",
	"TieBreaker_TIE_BREAKER_LUN", "TieBreaker_TIE_BREAKER_LEASE", "TieBreaker_TIE_BREAKER_API",
}

// askers lists the files that may ask, and why. For a new tie-breaker, only the first two should have to change.
var askers = map[string]string{
	"cmd/fencing-agent/config/breakers.go": "the values of quorum.tieBreak",
	"cmd/fencing-agent/agent/breaker.go":   "what starts each of them",
	"netgossip/terms.go":                   "the bits that go over the wire",
	"cmd/fencing-agent/config/lease.go":    "quorum.tieBreak: lease is possible only with the API server",
	"cmd/fencing-agent/agent/agent.go":     "the LUN is opened for other purposes, too",
	"cmd/fencing-agent/agent/timing.go":    "the API server is reached here, but not as an arbiter",
	"cmd/fencing-agent/agent/lease.go":     "only the Lease takes turns",
	"cmd/fencing-agent/agent/terms.go":     "a LUN may have been cloned",
	"cmd/fencing-agent/agent/facts.go":     "a preference for the API server has no grant to wait for",
	"cmd/fencing-agent/picture/metrics.go": "only the Lease has a gauge for its API server",
	"watchdog/core.go":                     "slots contain guards",
	"watchdog/tie.go":                      "here all other nodes are answered, and slots prove that two nodes use one LUN",
	"api/words/verdict.go":                 "the words for the place of a grant",
}

const whyAskers = "the core and its surroundings know the tie-breaker only as a netgossip/tie.Breaker, which reports its own name; a new one should need only its entry in cmd/fencing-agent/config/breakers.go and its line in cmd/fencing-agent/agent/breaker.go"

func breakerQuestions(s *source) (n int) {
	if s.test || within(s.pkg, "integration") || within(s.pkg, "api/v1") {
		return 0
	}
	ast.Inspect(s.file, func(node ast.Node) bool {
		if id, ok := node.(*ast.Ident); ok && slices.Contains(breakerNames, id.Name) {
			n++
		}
		return true
	})
	return n
}

func TestFewAskWhichTieBreakerItIs(t *testing.T) {
	var problems []string
	asked := map[string]bool{}
	for _, s := range all(t) {
		n := breakerQuestions(s)
		asked[s.path] = n > 0
		if n > 0 && askers[s.path] == "" {
			problems = append(problems, fmt.Sprintf("%s asks %d times which tie-breaker it is: %s", s.path, n, whyAskers))
		}
	}
	report(t, problems)
	for path := range askers {
		if !asked[path] {
			t.Errorf("askers lists %s, which does not ask", path)
		}
	}
	s := mustParse(t, "watchdog/core.go", "package p\nfunc f() { if c.UsesLease() { g(netgossip.BreaksByLUN) } }\n")
	if n := breakerQuestions(s); n != 2 {
		t.Errorf("%d questions found, want 2", n)
	}
}
