package agentsim

import (
	"syscall"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
)

func (w *world) apply(e Event) {
	// A Look changes nothing.
	if e.Kind == Look {
		for _, i := range e.Nodes {
			w.look(w.machines[i])
		}
		return
	}
	w.check.disturbedNow()
	switch e.Kind {
	case Split, OneWay, Heal, Loss, Delay:
		if e.Kind == Split && len(e.Parts) == 2 && len(e.Parts[0]) == len(e.Parts[1]) && (len(e.Networks) == w.s.Networks || w.s.AllNetworks) {
			w.check.watchTie([2][]int{e.Parts[0], e.Parts[1]})
		}
		w.conditionsChanged(func() { w.rewire(e) })
		w.setLinks()
	case Carrier:
		for _, i := range e.Nodes {
			for _, k := range e.Networks {
				w.machines[i].setCarrier(k, false)
			}
		}
	case CarrierBack:
		for _, m := range w.machines {
			for k := range w.s.Networks {
				m.setCarrier(k, true)
			}
		}
	case Start:
		for _, m := range w.machines {
			m.startAgent()
		}
	case LUNHang, LUNError, LUNReadOnly, LUNSlow, LUNBack:
		w.storage(e)
	case Reconfigure:
		w.reconfigure(e)
	case PowerOff:
		for _, i := range e.Nodes {
			w.machines[i].powerOff()
		}
	case Confirm:
		w.confirm(w.machines[e.Nodes[0]], w.machines[e.Nodes[1]])
	case Fence:
		w.order(w.machines[e.Nodes[0]], w.machines[e.Nodes[1]])
	case NewMembers:
		w.newMembers(e)
	case Disable:
		for _, i := range e.Nodes {
			w.disable(i)
		}
	case Enable:
		for _, i := range e.Nodes {
			w.enable(i)
		}
	case FeedFails:
		for _, i := range e.Nodes {
			w.machines[i].dog.FailFeeds(syscall.EIO)
		}
	case APIDown, APIBack:
		w.conditionsChanged(func() {
			for _, m := range w.machines {
				m.api = apiReachable
			}
			if e.Kind == APIDown {
				for _, i := range e.Nodes {
					w.machines[i].api = []apiState{apiSlow, apiError}[e.Pick%2]
				}
			}
		})
	default:
		for _, i := range e.Nodes {
			w.handleProcess(w.machines[i], e)
		}
	}
}

// rewire changes the networks. The caller holds mu.
func (w *world) rewire(e Event) {
	switch e.Kind {
	case Split:
		side := map[int]int{}
		for p, part := range e.Parts {
			for _, i := range part {
				side[i] = p
			}
		}
		for _, k := range e.Networks {
			for i := range w.machines {
				for j := range w.machines {
					w.cut[k][i][j] = side[i] != side[j]
				}
			}
		}
	case OneWay:
		for _, k := range e.Networks {
			w.cut[k][e.Nodes[0]][e.Nodes[1]] = true
		}
	case Loss:
		w.loss = e.Share
	case Delay:
		w.delay = e.Span
	case Heal:
		w.loss, w.delay = 0, 0
		for k := range w.cut {
			for i := range w.cut[k] {
				clear(w.cut[k][i])
			}
		}
	}
}

func (w *world) handleProcess(m *machine, e Event) {
	switch e.Kind {
	case Kill:
		m.kill(false)
	case Restart:
		m.kill(true)
	case Upgrade:
		m.upgrade(e.Span)
	case Freeze:
		m.freeze(true)
		w.after(e.Span, func() { m.freeze(false) })
	case HangLoop:
		m.hangLoop(e.Span)
	case Suspend:
		m.freeze(true)
		for k := range w.s.Networks {
			m.setCarrier(k, false)
		}
		w.after(e.Span, func() {
			for k := range w.s.Networks {
				m.setCarrier(k, true)
			}
			m.freeze(false)
		})
	}
}

func (w *world) storage(e Event) {
	if e.Kind == LUNBack {
		o := []diskquorumtest.Outcome{diskquorumtest.Land, diskquorumtest.Lose, diskquorumtest.Tear, diskquorumtest.LandFailed}[e.Pick]
		for _, m := range w.machines {
			m.setPath(lunPath{}, o)
		}
		return
	}
	l := lunPath{bad: true}
	switch e.Kind {
	case LUNHang:
		l.hung = true
	case LUNError:
		l.faults = diskquorumtest.Faults{ReadError: e.Share, WriteError: e.Share}
	case LUNReadOnly:
		l.faults = diskquorumtest.Faults{WriteError: 1}
	case LUNSlow:
		slow := diskquorumtest.Span{Min: time.Duration(e.Share * float64(e.Span)), Max: e.Span}
		l.faults = diskquorumtest.Faults{ReadDelay: slow, WriteDelay: slow}
	}
	for _, i := range e.Nodes {
		w.machines[i].setPath(l, diskquorumtest.LandFailed)
	}
}
