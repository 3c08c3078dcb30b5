package picture

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

func (f *Facts) nodes() []*fencingv1.NodeStatus {
	out := make([]*fencingv1.NodeStatus, 0, len(f.Nodes))
	for p := range f.Nodes {
		n := &f.Nodes[p]
		s := &fencingv1.NodeStatus{
			Name: f.Roster.Name(p), Addresses: f.Roster.Members[p].Addresses,
			Reachable: f.View.Seen.Has(p), Counted: f.View.Counted.Has(p), Available: f.Available.Has(p), CountedByLun: f.ByLUN.Has(p),
			StateAge: f.age(n.Since), EvidenceAge: f.age(n.Anchor), Suspect: f.Suspect(p),
		}
		if !n.Left.IsZero() {
			s.PrevDisconnect = timestamppb.New(n.Left)
		}
		if p == f.Roster.Self {
			s.Reachable, s.SeesThisNode, s.SameRoster = true, true, true
		} else {
			s.HeardAge = f.age(n.Sighted)
		}
		s.State = stateOf(s, n.Said, n.Anchor)
		f.addDeath(p, s)
		if f.Restarting.Has(p) {
			s.State = fencingv1.NodeState_NODE_STATE_RESTARTING
		}
		if n.Boot != 0 {
			s.BootNonce = hex64(n.Boot)
		}
		if n.LeftReason != 0 {
			s.LeftReason = n.LeftReason.String()
		}
		if n.Said != nil {
			f.addSaid(p, s, n.Said)
		}
		out = append(out, s)
	}
	return out
}

func stateOf(s *fencingv1.NodeStatus, st *netgossip.Statement, anchor boottime.Instant) fencingv1.NodeState {
	switch {
	case s.Reachable:
		return fencingv1.NodeState_NODE_STATE_REACHABLE
	case anchor <= 0:
		return fencingv1.NodeState_NODE_STATE_UNKNOWN
	case st != nil && st.Stopping:
		return fencingv1.NodeState_NODE_STATE_STOPPED
	default:
		return fencingv1.NodeState_NODE_STATE_UNREACHABLE
	}
}

// addDeath adds the known facts about the node's death.
func (f *Facts) addDeath(p int, s *fencingv1.NodeStatus) {
	n := &f.Nodes[p]
	if f.Fenced.Has(p) && !s.Reachable {
		s.State = fencingv1.NodeState_NODE_STATE_FENCED
	}
	if n.Death.Proof != 0 {
		s.Death = f.Death(n.Death, n.Note)
	}
	if w := n.Sentence; w != nil {
		s.Sentence = &fencingv1.Sentence{
			BootNonce: hex64(w.Boot), Timeout: durationpb.New(w.Timeout), Age: durationpb.New(w.Age.Round(time.Millisecond)),
			OverIn: durationpb.New(w.Left.Round(time.Millisecond)),
		}
	}
	if n.ProvenIn != nil {
		s.ProvenIn = durationpb.New(max(0, *n.ProvenIn).Round(time.Millisecond))
	}
}

// Death is a death for the API, with its reporter.
func (f *Facts) Death(d watchdog.Death, n Note) *fencingv1.Death {
	out := &fencingv1.Death{
		Proof: publish.ProofOf(d.Proof.String()), Time: f.wall(d.At), Teller: d.Teller, By: n.By, Reference: n.Reference, Reason: n.Reason,
	}
	if d.Boot != 0 {
		out.BootNonce = hex64(d.Boot)
	}
	return out
}

// addSaid adds the node's own statement.
func (f *Facts) addSaid(p int, s *fencingv1.NodeStatus, st *netgossip.Statement) {
	if p != f.Roster.Self {
		s.SeesThisNode = st.Seen.Has(f.Roster.Self)
		s.SameRoster = st.RosterDigest == f.Roster.Digest && st.RosterEpoch == f.Roster.Epoch
	}
	s.Token = &fencingv1.Token{BootNonce: hex64(st.Token.Nonce), Counter: st.Token.Counter}
	s.Feeding, s.Stopping = st.Feeding, st.Stopping
	s.WatchdogArmed, s.WatchdogTimeout = st.Guard.Armed, durationpb.New(st.Guard.Timeout)
	if st.Guard.Horizon > 0 && st.Guard.Fences {
		s.Horizon = durationpb.New(st.Guard.Horizon)
	}
	s.LunHealthy, s.ApiReachable, s.Version = st.LUNHealthy, st.APIReachable, st.Version
	if st.Terms.Stated() {
		s.Terms = st.Terms.String()
	}
}

func (f *Facts) networks() []*fencingv1.NetworkStatus {
	out := make([]*fencingv1.NetworkStatus, 0, len(f.Networks))
	for i := range f.Networks {
		n := &f.Networks[i]
		s := &fencingv1.NetworkStatus{
			Name: n.Name, Interface: n.Local.Interface, Up: n.Up, HealthScore: uint32(n.Health),
			Tuning: tuning(f.Config, n.Tuning, n.KeyIDs),
		}
		if n.Local.Address.IsValid() { // otherwise the network is away
			s.Address = n.Local.Address.String()
		}
		for p := range n.Links {
			if p == f.Roster.Self {
				continue
			}
			l := &n.Links[p]
			s.Members = append(s.Members, &fencingv1.NetworkMember{
				Name: f.Roster.Name(p), Address: f.Roster.Members[p].Addresses[n.Name],
				Alive: l.Alive, EvidenceAge: f.age(l.Proven), Reachable: l.Reachable, StateAge: f.age(l.Since), Suspect: l.Suspect,
			})
		}
		out = append(out, s)
	}
	return out
}

// reachable counts the peers that answer on a network.
func (n *Network) reachable() (peers int) {
	for i := range n.Links {
		if n.Links[i].Reachable {
			peers++
		}
	}
	return peers
}
