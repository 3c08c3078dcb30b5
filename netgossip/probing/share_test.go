package probing

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// duo is a node in a tie, with an instance on each of two networks. Each instance is told the other's answers.
type duo struct {
	nets [2]*rig
	told [2]map[*Peer]boottime.Instant
}

func newDuo(t *testing.T, n int, d netgossip.Demand) *duo {
	p := &duo{}
	for k := range p.nets {
		r := newRig(t, n)
		r.network = k
		r.rand = rand.New(rand.NewPCG(1, uint64(k)))
		r.SetDemand(d, r.now)
		p.nets[k], p.told[k] = r, map[*Peer]boottime.Instant{}
	}
	return p
}

// run advances the clock on both; always is called every few milliseconds.
func (p *duo) run(d time.Duration, always func(now boottime.Instant)) {
	for until := p.nets[0].now.Add(d); p.nets[0].now < until; {
		for k, r := range p.nets {
			r.run(5 * time.Millisecond)
			other := p.nets[1-k]
			for i, q := range r.byIndex {
				if q.proven > p.told[k][q] {
					p.told[k][q] = q.proven
					other.ProvenElsewhere(other.byIndex[i], q.proven, true)
				}
			}
		}
		always(p.nets[0].now)
	}
}

// oldest returns the age of the oldest evidence of any peer, on the better network.
func (p *duo) oldest(now boottime.Instant) (age time.Duration) {
	for i, q := range p.nets[0].byIndex {
		age = max(age, now.Sub(max(q.proven, p.nets[1].byIndex[i].proven)))
	}
	return age
}

// In a tie of many peers the networks take turns: each peer is probed on both networks, in total as often as on a
// single network, and its evidence gets no older.
func TestNetworksShareTheProbing(t *testing.T) {
	for _, n := range []int{149, 499} {
		tie := netgossip.Demand{Others: n, Share: 2, Any: true}
		p := newDuo(t, n, tie)
		asked := [2]map[*Peer]int{{}, {}}
		for k, r := range p.nets {
			r.answer = func(q *Peer) time.Duration { asked[k][q]++; return time.Millisecond }
		}
		p.run(20*time.Second, func(boottime.Instant) {})
		asked[0], asked[1] = map[*Peer]int{}, map[*Peer]int{}
		interval := p.nets[0].pace.Interval
		oldest := time.Duration(0)
		rounds := 20
		p.run(time.Duration(rounds)*interval, func(now boottime.Instant) { oldest = max(oldest, p.oldest(now)) })
		if limit := interval * 9 / 8 * 17 / 16; oldest > limit+20*time.Millisecond {
			t.Errorf("N=%d: evidence of %v, want at most %v", n, oldest, limit)
		}
		sum := 0
		for k, r := range p.nets {
			for _, q := range r.all {
				if sum += asked[k][q]; asked[k][q] < rounds/5 {
					t.Errorf("N=%d: peer %d was asked %d times on network %d", n, q.Index, asked[k][q], k)
				}
			}
		}
		if least, most := rounds*n*9/10, rounds*n*23/20; sum < least || sum > most {
			t.Errorf("N=%d: %d probes in %d rounds, want %d to %d", n, sum, rounds, least, most)
		}
	}
}

// Guard: if a network that shares the probing fails without a sign, the other network has enough time to probe every
// peer itself, several times if packets are lost, before the evidence is too old.
func TestSharingNetworkMayFail(t *testing.T) {
	p := newDuo(t, 499, netgossip.Demand{Others: 499, Share: 2, Any: true})
	p.run(15*time.Second, func(boottime.Instant) {})
	p.nets[1].answer = func(*Peer) time.Duration { return 0 }
	oldest := time.Duration(0)
	p.run(15*time.Second, func(now boottime.Instant) { oldest = max(oldest, p.oldest(now)) })
	if limit := p.nets[0].params.EvidenceMaxAge - time.Second; oldest > limit {
		t.Errorf("evidence of %v, want at most %v", oldest, limit)
	}
}

// Guard: the networks do not share the probing if a peer must be reached on several networks, if the consent of all
// peers is needed, if there are few peers, or while samples are taken. A peer that is in doubt is probed on all
// networks.
func TestWhatIsNotShared(t *testing.T) {
	tie := netgossip.Demand{Others: 300, Share: 2, Any: true}
	all, each, samples := tie, tie, tie
	all.Any, all.Share, each.Each, samples.Margin = false, 1, true, 149
	for name, c := range map[string]struct {
		n      int
		demand netgossip.Demand
		doubt  func(p *Peer)
		put    bool // the next probe is delayed
	}{
		"a tie of many":             {300, tie, nil, true},
		"on all networks":           {300, all, nil, false},
		"a consent":                 {300, each, nil, false},
		"a tie of few":              {99, netgossip.Demand{Others: 99, Share: 2, Any: true}, nil, false},
		"samples":                   {300, samples, nil, false},
		"it owes an answer":         {300, tie, func(p *Peer) { p.asked = start }, false},
		"it missed a sample":        {300, tie, func(p *Peer) { p.aside = 1 }, false},
		"it is lost":                {300, tie, func(p *Peer) { p.lost = true }, false},
		"it does not see us":        {300, tie, func(p *Peer) { p.contact = false }, false},
		"it has news":               {300, tie, func(p *Peer) { p.curious = true }, false},
		"it is to hear what is new": {300, tie, func(p *Peer) { p.nudged = true }, false},
	} {
		r := newRig(t, c.n)
		r.SetDemand(c.demand, r.now)
		p := r.byIndex[7]
		if c.doubt != nil {
			c.doubt(p)
		}
		due := p.due
		r.ProvenElsewhere(p, r.now.Add(2*time.Second), true)
		if put := p.due != due; put != c.put {
			t.Errorf("%s: put off %v, want %v", name, put, c.put)
		}
	}
}
