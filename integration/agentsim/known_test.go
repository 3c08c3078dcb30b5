package agentsim

import "testing"

// Guard: these schedules break no property, although the checker once reported violations. In 40428 a node held for
// half a second while the half that won began to have quorum. In 41760 a node's loop hung while its sockets heard a
// majority until the cut. In 41814 all nodes had moved to the API server, which lets both halves live.
func TestKnownSchedules(t *testing.T) {
	if testing.Short() {
		t.Skip("it tests only the checker; run make agentsim, as CI does")
	}
	for _, seed := range []uint64{40428, 41760, 41814} {
		s := Random(seed)
		mustHold(t, s, run(t, s))
	}
}
