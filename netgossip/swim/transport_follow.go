package swim

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// moveRetry is the pause before sockets that could not be reopened are tried again.
const moveRetry = 500 * time.Millisecond

// device is an interface: its name and the kernel's number for it.
type device struct {
	name  string
	index int
}

// place holds the device to which the sockets should be pinned.
type place struct {
	wanted atomic.Pointer[device] // nil: the present device
	wake   boottime.Wake
}

// listen opens the transport that the configuration asks for.
func (in *Instance) listen() error {
	at := netip.AddrPortFrom(in.cfg.BindAddr, uint16(in.cfg.Port))
	if in.cfg.Transport != nil {
		inner, err := in.cfg.Transport(at)
		if err != nil {
			return listenError(at, err)
		}
		in.transport = newMeter(inner, in.ledger)
		return nil
	}
	s, err := openSockets(at, in.cfg.Device, in.ledger, in.logger())
	if err != nil {
		return listenError(at, err)
	}
	in.transport, in.sockets = s, s
	// The kernel grants, and reports, twice the requested size.
	if need, got := min(in.cfg.Roster.Size()*receiveShare, 2*receiveBuffer), s.pair.Load().buffer; got < need {
		in.cfg.Logger.Warn("the socket's receive buffer is small for this many members: raise net.core.rmem_max, or give the process CAP_NET_ADMIN",
			slog.Int("bytes", got), slog.Int("wanted", need))
	}
	return nil
}

// Rebind pins the sockets to the device with this name and index. Call it when the network's address has come back on
// an interface: an interface that was removed and created again has another index, and sockets stay with the old one.
// Sockets that are already pinned to this index, or not pinned, stay as they are, and so does a transport of another
// type. The instance does not notice the change, nor do the peers if it takes less time than a suspicion.
//
// Rebind does not block. Failures are logged and tried again, until the next call.
func (in *Instance) Rebind(name string, index int) {
	in.place.wanted.Store(&device{name, index})
	in.place.wake.Signal()
}

// follow carries out the requests of Rebind until ctx is done.
func (in *Instance) follow(ctx context.Context) {
	if in.sockets == nil || in.cfg.Device == "" {
		return
	}
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-in.place.wake:
		case <-retry.C:
		}
		d := in.place.wanted.Load()
		if d == nil {
			continue
		}
		moved, err := in.sockets.move(d.name, d.index)
		if err != nil {
			in.journal.warn("rebind", "sockets cannot be moved to the device; trying again", slog.String("device", d.name),
				slog.Int("index", d.index), slog.Any("error", listenError(in.sockets.at, err)))
			retry.Reset(moveRetry)
			continue
		}
		in.place.wanted.CompareAndSwap(d, nil)
		if moved {
			in.journal.post(entry{level: slog.LevelWarn, msg: "moved sockets to another device",
				attrs: []slog.Attr{slog.String("device", d.name), slog.Int("index", d.index)}})
			in.evidence.ask(func(r *request) { r.announce = true })
		}
	}
}
