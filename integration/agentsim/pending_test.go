package agentsim

import (
	"testing"
	"time"
)

// Somebody has edited the list in some files, and no agent takes it up, because others lack it. Such a list does not
// keep a node that is cut off from announcing when it will be dead: it promises nothing, and nobody counts by it. It
// used to do so, whether the losing nodes or the surviving ones had it.
func TestPendingListKeepsNoSentence(t *testing.T) {
	for name, told := range map[string][]int{"in the half that loses": {0}, "where it lives": {1, 2}, "at one of those who live": {2}} {
		s := group(4, wide, split([]int{0}, []int{1, 2}))
		s.Members = []int{0, 1, 2}
		s.Events = append([]Event{{At: healthyFor - 10*time.Second, Kind: NewMembers, Nodes: []int{0, 1}, Parts: [][]int{told}}}, s.Events...)
		r := run(t, s)
		took := said(t, r, "FENCED "+nodeName(0)+" PROOF_SENTENCE")
		t.Logf("%s: condemned after %v, FENCED after %v", name, said(t, r, "announces its self-fence"), took)
		if len(r.Violations) > 0 || r.Resets != 1 || took == 0 || took > 15*time.Second {
			t.Errorf("%s: %d resets, FENCED after %v\n%s", name, r.Resets, took, Explain(s, r))
		}
	}
}
