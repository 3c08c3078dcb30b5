package watchdog

import (
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
	"github.com/fencing-agent/fencing-agent/netgossip/tie/tietest"
)

// onDisk is the LUN as a tie-breaker, whose I/O completes at once.
type onDisk struct {
	lun
	image []byte
	stamp func(*diskquorum.Input, *tie.Input)
}

func (l *onDisk) Step(now boottime.Instant, in *tie.Input) *tie.Output {
	for again := 8; ; again-- {
		l.stamp(&l.input, in)
		out := l.lun.Step(now, in)
		for i := range l.latest.Ops {
			op := &l.latest.Ops[i]
			done := diskquorum.Completion{ID: op.ID, Device: op.Device, Kind: op.Kind, Started: now, Ended: now}
			if op.Kind == diskquorum.OpRead {
				done.Data = append([]byte(nil), l.image[op.Offset:op.Offset+int64(op.Length)]...)
			} else {
				copy(l.image[op.Offset:], op.Data)
				copy(l.image[op.BesideAt:], op.Beside)
			}
			l.arbiter.Complete(now, &done)
		}
		if l.latest.Lock >= 0 {
			l.arbiter.Locked(now, 0, nil)
		}
		if len(l.latest.Ops) == 0 && l.latest.Lock < 0 || again == 0 {
			return out
		}
	}
}

// The LUN keeps the promises of tie.Breaker, except for horizons of single nodes: these are in the slots, see
// Prover.excluded.
func TestConform(t *testing.T) {
	tietest.Conform(t, func(t *testing.T) tietest.Rig {
		sb := &diskquorum.Superblock{Version: diskquorum.FormatVersion, Cluster: "c", NodeGroup: "g", Slots: 4}
		sb.ID[0] = 1
		image := make([]byte, diskquorum.DeviceSize(sb.Slots))
		for which := range 2 {
			if err := diskquorum.EncodeSuperblock(image[which*diskquorum.BlockSize:(which+1)*diskquorum.BlockSize], sb, which); err != nil {
				t.Fatal(err)
			}
		}
		return tietest.Rig{
			MaxAge: 4 * time.Second, Decides: 30 * time.Second, Horizon: 5 * time.Second, OneHorizon: true,
			New: func(r *roster.Roster, e tie.Evidence, boot uint64, _ boottime.Instant) tie.Breaker {
				return &onDisk{
					image: image,
					stamp: func(to *diskquorum.Input, in *tie.Input) {
						to.Own = netgossip.Statement{Boot: boot, RosterEpoch: r.Epoch, RosterDigest: r.Digest, Seen: in.View, Guard: netgossip.Guard{Armed: true, Horizon: in.Horizon}}
					},
					lun: lun{arbiter: diskquorum.NewArbiter(diskquorum.ArbiterConfig{
						Devices: []*diskquorum.Superblock{sb}, Roster: r, Evidence: e, Boot: boot, Process: boot,
						Timing: diskquorum.Timing{
							Heartbeat: time.Second, IOTimeout: 2 * time.Second, MaxAge: 4 * time.Second, Grant: 5 * time.Second, Arbitrate: 10 * time.Second,
							Expire: 11 * time.Second, PreferenceDelay: 2 * time.Second, Stagger: time.Second, Takeover: 15 * time.Second,
						},
					})},
				}
			},
		}
	})
}
