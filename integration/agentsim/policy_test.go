package agentsim

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// heardOf lists, in order, the events about a member that subscribers on a node received.
func heardOf(r *Result, node, member string) (out []string) {
	for _, l := range r.Timeline {
		who, said, ok := strings.Cut(l, "tells subscribers: ")
		if f := strings.Fields(said); ok && slices.Contains(strings.Fields(who), node) && len(f) == 2 && f[1] == member {
			out = append(out, f[0])
		}
	}
	return out
}

// With onQuorumLoss: exclude, nodes that have lost quorum keep running. Their own subscribers see them leave, like
// those of the majority. After the heal they are back everywhere.
func TestExcludedNodesLiveOn(t *testing.T) {
	s := group(5, func(s *Schedule) { s.LUN, s.OnLoss = false, "exclude" },
		split([]int{0, 1}, []int{2, 3, 4}), at(25*time.Second, Event{Kind: Look, Nodes: []int{0, 2}}), at(30*time.Second, Event{Kind: Heal}))
	r := run(t, s)
	if len(r.Violations) > 0 || r.Resets != 0 || r.Deaths != 0 || r.Living != 5 {
		t.Fatalf("%d resets, %d deaths, %d live\n%s", r.Resets, r.Deaths, r.Living, Explain(s, r))
	}
	for _, c := range []struct{ node, member string }{{"n1", "n1"}, {"n2", "n2"}, {"n3", "n1"}, {"n4", "n1"}, {"n5", "n2"}} {
		if got := heardOf(r, c.node, c.member); len(got) < 2 || !slices.Equal(got[len(got)-2:], []string{"LEFT", "JOIN"}) {
			t.Errorf("%s received about %s: %v, want LEFT and JOIN last\n%s", c.node, c.member, got, Explain(s, r))
		}
	}
	if got := heardOf(r, "n3", "n3"); slices.Contains(got, "LEFT") {
		t.Errorf("n3 has quorum, and its subscribers received about it: %v", got)
	}
	for _, look := range r.Looks {
		v, w := look.Status.GetVerdict(), look.Status.GetWatchdog()
		if excluded := look.Node == "n1"; v.GetQuorum() == excluded || !w.GetArmed() {
			t.Errorf("%s: %v, watchdog %v", look.Node, v, w)
		}
	}
}

// When the list of members grows, the gossip continues with the parameters for the new number, and no node is reset or
// LEFT in the meantime.
func TestGossipIsRetunedWhenTheGroupGrows(t *testing.T) {
	var all []int
	for i := range 12 {
		all = append(all, i)
	}
	ask := Event{Kind: Look, Nodes: []int{0}}
	s := group(12, first(all[:8]...), ask, newMembers(all, all[:8]...), at(40*time.Second, ask))
	r := run(t, s)
	if len(r.Violations) > 0 || r.Resets != 0 || r.InForce != 1 || len(r.Looks) != 2 {
		t.Fatal(Explain(s, r))
	}
	for i, want := range []struct{ size, checks, probe uint32 }{{8, 3, 300}, {12, 8, 500}} {
		for _, n := range r.Looks[i].Status.GetNetworks() {
			got := want
			got.size = n.GetTuning().GetTunedFor()
			for _, p := range n.GetTuning().GetParameters() {
				switch p.GetName() {
				case "indirectChecks":
					got.checks = p.GetCount()
				case "probeInterval":
					got.probe = uint32(p.GetDuration().AsDuration().Milliseconds())
				}
			}
			if got != want {
				t.Errorf("network %s of %s is tuned to %+v, want %+v", n.GetName(), r.Looks[i].Node, got, want)
			}
		}
	}
}

// An event names the network on which the member was last lost or found, because that loss or find changed what is
// published.
func TestEventsNameTheNetwork(t *testing.T) {
	one := Event{Kind: Split, Parts: [][]int{{0}, {1, 2}}, Networks: []int{1}}
	s := group(3, noLUN, one, at(10*time.Second, Event{Kind: Split, Parts: [][]int{{0}, {1, 2}}, Networks: []int{0}}), at(25*time.Second, Event{Kind: Heal}))
	s.OnLoss = "wait"
	r := run(t, s)
	if len(r.Violations) > 0 || r.Sources["LEFT n2/"+networkNames[0]] != 1 || r.Sources["LEFT n3/"+networkNames[0]] != 1 {
		t.Errorf("sources %v\n%s", r.Sources, Explain(s, r))
	}
	for source := range r.Sources {
		if strings.HasPrefix(source, "LEFT") && strings.HasSuffix(source, "/"+networkNames[1]) {
			t.Errorf("%s: the loss of that network changed nothing", source)
		}
	}
}
