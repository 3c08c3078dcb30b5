package diskquorum

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// listen returns what node i of the choir hears.
func (c *choir) listen(i int) []Voice {
	voices := make([]Voice, len(c.nodes))
	c.nodes[i].Listen(c.now, choirDated, voices)
	return voices
}

// sung returns a choir after some rounds in which each node sees all.
func sung(t *testing.T, n int) *choir {
	t.Helper()
	c := newChoir(t, n, 1)
	for i := range n {
		c.sees[i] = roster.FullSet(n)
	}
	for range 3 {
		for i := range n {
			c.turn(i)
		}
	}
	return c
}

// Guard: N1. A block counts from the instant of the ping that it echoes, not from its arrival, for the time that Listen
// is given.
func TestVoicesAreDated(t *testing.T) {
	c := newChoir(t, 3, 1)
	c.sees[1], c.sees[2] = roster.FullSet(3), roster.FullSet(3)
	c.turn(0)
	c.turn(1)
	if v := c.listen(0); v[1] != (Voice{}) {
		t.Errorf("n2 is heard before it has echoed anything: %+v", v[1])
	}
	asked := c.nodes[0].echo.composed[c.nodes[0].echo.count%pingsKept]
	late := c.write(1) // this write echoes that ping
	block := data(late)
	c.now = c.now.Add(10 * time.Second)
	c.land(late, block)
	c.turn(0)
	if v := c.listen(0)[1]; !v.Mutual || v.Until != asked.Add(choirDated) || v.Boot != 2 {
		t.Errorf("a word of %v that landed 10 s later: %+v", asked, v)
	}
	c.now = asked.Add(choirDated)
	if v := c.listen(0)[1]; v != (Voice{}) {
		t.Errorf("a word as old as may be is heard: %+v", v)
	}
}

// Guard: N2. A node that does not see this node, by network or LUN, is heard but not counted. The same applies to a
// node of an earlier version or in another mode, which does not state whom it sees.
func TestVoicesAreMutual(t *testing.T) {
	c := sung(t, 3)
	if v := c.listen(0); !v[1].Mutual || !v[2].Mutual || v[0] != (Voice{}) {
		t.Fatalf("all see each other: %+v", v)
	}
	c.sees[1], c.sees[2] = roster.SetOf(2), roster.Set{}
	c.turn(1)
	c.turn(2)
	c.turn(0)
	for _, p := range []int{1, 2} {
		if v := c.listen(0)[p]; v.Mutual || v.Until <= c.now {
			t.Errorf("n%d does not see this node: %+v", p+1, v)
		}
	}
}

// Guard: N6. A block by another list has other indices; a block of a member that uses two lists is at most a sighting.
func TestVoicesByOtherLists(t *testing.T) {
	c := sung(t, 3)
	c.nodes[0].echo.peers[1].Settled = false
	c.nodes[0].echo.peers[2].RosterDigest++
	if v := c.listen(0); v[1].Mutual || v[1].Until == 0 || v[2] != (Voice{}) {
		t.Errorf("%+v", v)
	}
}

// The latest block counts, whichever slot the member had.
func TestVoiceOfAMemberInTwoSlots(t *testing.T) {
	c := sung(t, 3)
	peers := c.nodes[0].echo.peers
	peers[2] = peers[1]
	peers[2].date -= boottime.Instant(time.Second)
	peers[2].Seen = roster.Set{}
	if v := c.listen(0)[1]; !v.Mutual || v.Until != peers[1].date.Add(choirDated) {
		t.Errorf("%+v", v)
	}
}

// An echo block of a version without the field for the seen members states none, so its owner is not counted.
func TestEchoBlockOfBefore(t *testing.T) {
	dump, err := os.ReadFile(filepath.Join("testdata", "golden", "echo_v1_unseen.hex"))
	if err != nil {
		t.Fatal(err)
	}
	var block []byte
	for line := range strings.Lines(string(dump)) {
		b, err := hex.DecodeString(strings.ReplaceAll(line[8:58], " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		block = append(block, b...)
	}
	want := sampleEcho()
	want.Seen, want.Judged, want.Sentence = roster.Set{}, Sentence{}, 0
	if got, _, err := DecodeEcho(block, sampleID, 64, want.Index, 0); err != nil || got != want {
		t.Errorf("%v, %+v", err, got)
	}
}
