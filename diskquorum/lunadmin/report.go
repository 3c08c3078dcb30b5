package lunadmin

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Report describes the contents of a LUN. Its JSON form is part of fencectl's interface.
type Report struct {
	Opened
	Superblock     SuperblockReport `json:"superblock"`
	WatchedSeconds float64          `json:"watchedSeconds"` // between the two reads; 0: read once
	Slots          []SlotReport     `json:"slots"`          // without slots that were never written
	Lease          LeaseReport      `json:"lease"`
	Damage         []string         `json:"damage"` // parts that agents cannot read; empty: no damage
}

// SuperblockReport describes the superblock and the health of its copies.
type SuperblockReport struct {
	Version   int       `json:"version"`
	ID        string    `json:"id"`
	Cluster   string    `json:"cluster"`
	NodeGroup string    `json:"nodeGroup"`
	Slots     int       `json:"slots"`
	Created   string    `json:"created"` // RFC 3339
	Copies    [2]string `json:"copies"`
	Set       *SetPlace `json:"set,omitempty"` // nil: a LUN of one device
}

// SetPlace is a device's place in a set of three.
type SetPlace struct {
	ID      string `json:"id"`
	Device  int    `json:"device"` // 1 to Devices, in the order of `fencectl lun init`
	Devices int    `json:"devices"`
}

// String returns the place as a text.
func (p *SetPlace) String() string {
	return fmt.Sprintf("%s, device %d of %d", p.ID, p.Device, p.Devices)
}

func setPlace(sb *diskquorum.Superblock) *SetPlace {
	if sb.Devices == 0 {
		return nil
	}
	return &SetPlace{ID: fmt.Sprintf("%x", sb.SetID), Device: sb.Device + 1, Devices: sb.Devices}
}

// SlotReport describes one slot. If no copy can be read, only Slot, State, Copies and Moving are set.
type SlotReport struct {
	Slot        int              `json:"slot"`
	State       string           `json:"state"` // free, claiming, active, stopped or unreadable
	Owner       string           `json:"owner,omitempty"`
	UID         string           `json:"uid,omitempty"`
	Incarnation string           `json:"incarnation,omitempty"` // nonce of the kernel boot
	Process     string           `json:"process,omitempty"`
	Agent       string           `json:"agentVersion,omitempty"`
	Sequence    uint64           `json:"sequence,omitempty"`
	Token       string           `json:"token,omitempty"`
	Moving      *bool            `json:"moving,omitempty"`           // its sequence changed while watched
	Unchanged   *float64         `json:"unchangedSeconds,omitempty"` // by this node's clock; only in a live view, after the slot was seen to change
	View        []string         `json:"view,omitempty"`
	Seen        []string         `json:"seen,omitempty"`
	Flags       *FlagsReport     `json:"flags,omitempty"`
	Watchdog    *WatchdogReport  `json:"watchdog,omitempty"`
	Roster      *RosterReport    `json:"roster,omitempty"`
	Heartbeat   float64          `json:"heartbeatSeconds,omitempty"`
	WrittenAt   string           `json:"writtenAt,omitempty"`  // by the owner's wall clock, RFC 3339
	Age         *float64         `json:"ageSeconds,omitempty"` // by two wall clocks: information, not proof
	Ballot      *BallotReport    `json:"ballot,omitempty"`
	Copies      [2]string        `json:"copies"`
	record      *diskquorum.Slot // nil: unreadable
}

// FlagsReport holds a node's statement about itself, apart from its view.
type FlagsReport struct {
	Feeding      bool `json:"feeding"`
	Stopping     bool `json:"stopping"`
	LUNHealthy   bool `json:"lunHealthy"`
	APIReachable bool `json:"apiReachable"`
}

// WatchdogReport describes the watchdog of a slot's owner.
type WatchdogReport struct {
	Armed   bool    `json:"armed"`
	Fences  bool    `json:"fences"`
	Timeout float64 `json:"timeoutSeconds"`
}

// RosterReport describes the roster to which a slot's sets refer.
type RosterReport struct {
	Index  int    `json:"index"`
	Size   int    `json:"size"`
	Epoch  uint64 `json:"epoch"`
	Digest string `json:"digest"`
}

// BallotReport describes a slot's part of the log of decisions.
type BallotReport struct {
	Instance        uint64 `json:"instance"`
	MBal            uint64 `json:"mbal"`
	Bal             uint64 `json:"bal"`
	DecidedInstance uint64 `json:"decidedInstance"`
}

// LeaseReport describes the latest decision of the log.
type LeaseReport struct {
	Instance  uint64         `json:"instance"` // 0: nothing has been decided yet
	Holders   []HolderReport `json:"holders"`
	Undecided bool           `json:"undecided"` // a later instance has a value that may be decided
	Complete  bool           `json:"complete"`  // false: a slot that cannot be read may hold a later decision
}

// HolderReport describes one granted token and its present state.
type HolderReport struct {
	Slot  int    `json:"slot"`
	Node  string `json:"node"`
	Token string `json:"token"`
	State string `json:"state"` // current, renounced (its tie counter increased), gone (rebooted) or unknown
}

// report builds the report of one read.
func report(table []byte, sb *diskquorum.Superblock, now time.Time) *Report {
	views := readSlots(table, sb)
	r := &Report{
		Superblock: SuperblockReport{
			Version: int(sb.Version), ID: fmt.Sprintf("%x", sb.ID), Cluster: clean(sb.Cluster), NodeGroup: clean(sb.NodeGroup),
			Slots: sb.Slots, Created: time.Unix(sb.Created, 0).UTC().Format(time.RFC3339), Copies: superblockCopies(table), Set: setPlace(sb),
		},
		Opened: Opened{Warnings: []string{}}, Slots: []SlotReport{},
	}
	names := rosterNames(views)
	for _, v := range views {
		if !v.blank() {
			r.Slots = append(r.Slots, slotReport(&v, names, now))
		}
	}
	r.Lease = leaseReport(views)
	r.Damage = damage(table, sb)
	r.warnDuplicates()
	return r
}

// rosterNames maps roster indices to names, as far as the slots with that roster show them. Slots
// with another roster have other indices.
func rosterNames(views []slotView) map[uint64]map[int]string {
	names := map[uint64]map[int]string{}
	for _, v := range views {
		if v.record == nil || v.record.State == diskquorum.SlotFree || v.record.RosterSize == 0 {
			continue
		}
		digest := v.record.Statement.RosterDigest
		if names[digest] == nil {
			names[digest] = map[int]string{}
		}
		names[digest][v.record.RosterIndex] = clean(v.record.NodeName)
	}
	return names
}

func setNames(s roster.Set, names map[int]string) []string {
	out := []string{}
	for i := range s.All() {
		if name, ok := names[i]; ok {
			out = append(out, name)
		} else {
			out = append(out, fmt.Sprintf("#%d", i)) // a node without a slot
		}
	}
	return out
}

func slotReport(v *slotView, names map[uint64]map[int]string, now time.Time) SlotReport {
	r := SlotReport{Slot: v.index, State: "unreadable", Copies: v.copies, record: v.record}
	s := v.record
	if s == nil {
		return r
	}
	st := &s.Statement
	written := time.UnixMilli(s.WallTime).UTC()
	age := now.Sub(written).Seconds()
	r.State = stateName(s.State)
	r.Owner, r.UID, r.Agent = clean(s.NodeName), clean(s.NodeUID), clean(st.Version)
	r.Incarnation, r.Process = fmt.Sprintf("%016x", st.Boot), fmt.Sprintf("%016x", s.Process)
	r.Sequence, r.Token = s.Sequence, st.Token.String()
	r.View, r.Seen = setNames(st.View, names[st.RosterDigest]), setNames(st.Seen, names[st.RosterDigest])
	r.Flags = &FlagsReport{st.Feeding, st.Stopping, st.LUNHealthy, st.APIReachable}
	r.Watchdog = &WatchdogReport{st.Guard.Armed, st.Guard.Fences, st.Guard.Timeout.Seconds()}
	r.Roster = &RosterReport{s.RosterIndex, s.RosterSize, st.RosterEpoch, fmt.Sprintf("%016x", st.RosterDigest)}
	r.Heartbeat = s.HeartbeatInterval.Seconds()
	r.WrittenAt, r.Age = written.Format(time.RFC3339Nano), &age
	r.Ballot = &BallotReport{s.Ballot.Instance, s.Ballot.MBal, s.Ballot.Bal, s.Ballot.DecidedInstance}
	return r
}

func stateName(s diskquorum.SlotState) string {
	switch s {
	case diskquorum.SlotFree:
		return "free"
	case diskquorum.SlotClaiming:
		return "claiming"
	case diskquorum.SlotActive:
		return "active"
	case diskquorum.SlotStopped:
		return "stopped"
	}
	return fmt.Sprintf("state %d", s)
}

// leaseReport finds the latest decision by rule B7: the greatest decided instance of all slots, unless a value was
// proposed in a later one.
func leaseReport(views []slotView) LeaseReport {
	l := LeaseReport{Holders: []HolderReport{}, Complete: true}
	var grant *diskquorum.Grant
	for _, v := range views {
		l.Complete = l.Complete && !v.hides()
		if v.record != nil && v.record.Ballot.DecidedInstance > l.Instance {
			l.Instance, grant = v.record.Ballot.DecidedInstance, v.record.Ballot.Decided
		}
	}
	for _, v := range views {
		if v.record != nil && v.record.Ballot.Instance > l.Instance && v.record.Ballot.Bal != 0 {
			l.Undecided = true
		}
	}
	if grant != nil {
		for _, h := range grant.Holders {
			l.Holders = append(l.Holders, holderReport(h, views))
		}
	}
	return l
}

func holderReport(h diskquorum.Holder, views []slotView) HolderReport {
	r := HolderReport{Slot: int(h.Slot), Token: h.Token.String(), State: "unknown"}
	if r.Slot >= len(views) || views[r.Slot].record == nil {
		return r
	}
	s := views[r.Slot].record
	r.Node = clean(s.NodeName)
	switch present := s.Statement.Token; {
	case views[r.Slot].hides():
	case present == h.Token:
		r.State = "current"
	case present.Nonce == h.Token.Nonce:
		r.State = "renounced"
	default:
		r.State = "gone"
	}
	return r
}

// warnDuplicates reports a name that owns more than one slot.
func (r *Report) warnDuplicates() {
	owned := map[string][]int{}
	for _, s := range r.Slots {
		if s.record != nil && s.record.State != diskquorum.SlotFree {
			owned[s.Owner] = append(owned[s.Owner], s.Slot)
		}
	}
	for name, slots := range owned {
		if len(slots) > 1 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s owns the slots %v: two nodes use one name", name, slots))
		}
	}
	slices.SortStableFunc(r.Warnings, cmp.Compare[string])
}
