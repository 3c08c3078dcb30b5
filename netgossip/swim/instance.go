package swim

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// defaultLeaveTimeout bounds the farewell of a Stop whose context has no deadline. A
// broadcast to 1000 nodes takes 6 s.
const defaultLeaveTimeout = 10 * time.Second

// Instance is one memberlist on one SystemNetwork. All methods may be called from any
// goroutine, except from inside a Sink.
type Instance struct {
	cfg       Config
	transport memberlist.NodeAwareTransport
	sockets   *sockets // the transport, unless Config has its own Listener
	place     place
	ledger    *ledger
	count     *counters // of the ledger
	gate      *gate
	journal   *journal
	evidence  *evidence
	rejoin    *rejoiner
	addresses map[int]netip.AddrPort // on this network, by roster index, including this node's

	list  atomic.Pointer[memberlist.Memberlist] // set by Start
	loops sync.WaitGroup

	mu      sync.Mutex // held by Start and Stop throughout
	stopped bool
	cancel  context.CancelFunc
}

// Stats are counts since the start of an instance.
type Stats struct {
	Members int // members that memberlist calls alive, including suspects and self
	Health  int // memberlist's awareness score: 0 is healthy

	PacketsIn, PacketsOut uint64
	BytesIn, BytesOut     uint64 // packets and streams, without the headers of IP, UDP and TCP
	// Packets that did not fit into the kernel's buffers: they came faster than they were read, or were sent faster
	// than the device accepted them. Only counted for the package's own sockets.
	DroppedIn, DroppedOut uint64
	// LastPacket is when the last packet came from the address of a roster member, with any contents; zero: none has.
	// Its age is the time for which the network has been silent.
	LastPacket boottime.Instant

	Probes, Answers uint64 // this node's evidence probes, and how many of them were answered
	Mode            string // direct, sampled or sweep: how the peers are probed
	Samples, Misses uint64 // random samples, and how many of them were not answered
	Sweeps          uint64 // rounds over all peers because of misses
	Refused         uint64 // arrivals that were refused, for any reason
}

// New binds the sockets, so an address in use is already an error when the agent starts. Nothing is sent before Start.
// Every instance must be stopped with Stop.
func New(cfg Config) (*Instance, error) {
	fail := func(err error) (*Instance, error) {
		return nil, fmt.Errorf("swim network %s: %w", cfg.Name, err)
	}
	if err := cfg.validate(); err != nil {
		return fail(err)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(nil)
	}
	cfg.Logger = cfg.Logger.With("network", cfg.Name)
	targets, err := cfg.targets()
	if err != nil {
		return fail(err)
	}
	in := &Instance{cfg: cfg, count: cfg.Metrics.network(cfg.Name), gate: newGate()}
	in.journal = newJournal(cfg.Logger, func(r refusal) { in.count.refused[r].add(1) })
	in.ledger = newLedger(in.count, cfg.Clock, targets)
	if !cfg.AnySource {
		in.ledger.foreign = in.reportForeign
	}
	in.ledger.screen, in.ledger.report = cfg.newScreen(), in.reportFrame
	in.addresses = cfg.addresses(targets)
	in.place.wake = boottime.NewWake()
	if err := in.listen(); err != nil {
		return fail(err)
	}
	in.rejoin = newRejoiner(&in.cfg, targets, in.journal)
	in.evidence = newEvidence(in, targets)
	return in, nil
}

// logger returns a logger for memberlist that writes to the journal.
func (in *Instance) logger() *log.Logger { return log.New(in.journal, "", 0) }

// Start begins to gossip and to probe. It does not wait for any peer.
func (in *Instance) Start() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stopped || in.cancel != nil {
		return fmt.Errorf("swim network %s: start: started or stopped already", in.cfg.Name)
	}
	ctx, cancel := context.WithCancel(context.Background())
	in.cancel = cancel
	in.loops.Go(func() { in.journal.run(ctx) })

	conf := in.cfg.memberlist(in.transport, in.logger())
	conf.Delegate, conf.Events, conf.Conflict, conf.Alive = delegate{in}, delegate{in}, delegate{in}, delegate{in}
	list, err := memberlist.Create(conf)
	if err != nil {
		return fmt.Errorf("swim network %s: start: %w", in.cfg.Name, err)
	}
	in.list.Store(list)
	if in.cfg.Doubts != nil {
		in.cfg.Doubts.join(in.evidence)
	}
	in.loops.Go(func() { in.evidence.run(ctx, list) })
	in.loops.Go(func() { in.rejoin.run(ctx, list) })
	in.loops.Go(func() { in.follow(ctx) })
	in.cfg.Logger.Info("gossip started", slog.Any("address", in.cfg.BindAddr), slog.Int("port", in.cfg.Port),
		slog.String("pinned_to", in.cfg.Device))
	return nil
}

// Stop ends the instance for good. With leave it first tells the peers that this node leaves on purpose. Without it,
// the peers notice nothing if the instance is replaced before they suspect this node, as in a restart of the agent.
// When Stop returns nil, the sockets are closed, the instance's goroutines have ended and the Sink is not called any
// more; timers of memberlist may still fire for some seconds, without effect.
//
// Stop fails if ctx ends first; the rest then ends by itself later.
func (in *Instance) Stop(ctx context.Context, leave bool) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stopped {
		return nil
	}
	in.stopped = true
	if in.cfg.Doubts != nil {
		in.cfg.Doubts.part(in.evidence)
	}
	var errs []error
	list := in.list.Load()
	if list != nil && leave && ctx.Err() == nil {
		if err := list.Leave(leaveTimeout(ctx)); err != nil {
			errs = append(errs, fmt.Errorf("leave: %w", err))
		}
	}
	if err := in.gate.close(ctx); err != nil {
		errs = append(errs, fmt.Errorf("a report to the sink does not return: %w", err))
	}
	if in.cancel != nil {
		in.cancel()
	}
	shut := in.transport.Shutdown
	if list != nil {
		shut = list.Shutdown
	}
	done := make(chan error, 1)
	go func() {
		err := shut()
		in.loops.Wait()
		done <- err
	}()
	select {
	case err := <-done:
		errs = append(errs, err)
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("sockets and goroutines have not ended: %w", ctx.Err()))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("swim network %s: stop: %w", in.cfg.Name, err)
	}
	return nil
}

// leaveTimeout is never 0, because 0 means no limit to memberlist.
func leaveTimeout(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return defaultLeaveTimeout
	}
	return max(time.Millisecond, time.Until(deadline)*3/4)
}

// Nudge reports that this node's statement has changed. If each peer is probed, all are probed soon, which also makes
// them fetch the statement. If samples are taken, a few peers are probed. If each of more than 100 peers is probed, no
// extra probe is sent, because all peers ask within Pace.Interval. A peer gets at most one such probe in 50 ms, and the
// last nudge is never lost. It does not block.
func (in *Instance) Nudge() { in.evidence.ask(func(r *request) { r.nudge = true }) }

// Announce is a Nudge of every peer, in every mode, within netgossip.RoundTime. It does not block.
func (in *Instance) Announce() { in.evidence.ask(func(r *request) { r.announce = true }) }

// LastWords is an Announce of a node that may end soon: all peers are notified within the given time, and a running
// announcement is replaced. It does not block.
func (in *Instance) LastWords(within time.Duration) {
	in.evidence.ask(func(r *request) { r.last = within })
}

// Renew reports that the evidence of this network is void, for instance because this node's link was down: all peers
// are probed as after the start. It does not block.
func (in *Instance) Renew() { in.evidence.ask(func(r *request) { r.renew = true }) }

// SetDemand sets how closely the peers have to be watched. Until it is called, each peer is probed. It does not block.
func (in *Instance) SetDemand(d netgossip.Demand) {
	in.evidence.ask(func(r *request) { r.demand = d })
}

// Ask requests the statements of peers, once each, at the rate of a sweep. It replaces the peers of the call before
// that have not been asked yet. It does not block.
func (in *Instance) Ask(peers roster.Set) {
	in.evidence.ask(func(r *request) { r.ask = &peers })
}

// Doubt reports that another network of the node has a reason to doubt its peers. It does not block, and may be called
// from inside another instance's Sink.
func (in *Instance) Doubt() { in.evidence.ask(func(r *request) { r.doubt = true }) }

// Verify reports that another network of the node misses a peer. It does not block, and may be called from inside
// another instance's Sink.
func (in *Instance) Verify(peer int) { in.evidence.post(arrival{peer: peer, missed: true}) }

// Proven reports that a peer, named as in the roster, answered on another network of the node a probe that was sent at
// an instant; told reports that the answer had its statement. If the networks share the probing, it delays the next
// probe here. It does not block, and may be called from inside another instance's Sink.
func (in *Instance) Proven(name string, at boottime.Instant, told bool) {
	if !in.evidence.shares.Load() {
		return
	}
	if peer, ok := in.cfg.Roster.Index(name); ok {
		in.evidence.post(arrival{peer: peer, proven: true, told: told, at: at})
	}
}

// Suspects lists the members whose answer to a probe has been due for longer than Params.SuspectAfter, including lost
// members.
func (in *Instance) Suspects() []string {
	var out []string
	now := in.cfg.Clock()
	for i := range in.evidence.owing {
		if since := boottime.Instant(in.evidence.owing[i].Load()); since != 0 && now.Sub(since) > in.cfg.Params.SuspectAfter() {
			out = append(out, in.evidence.targets[i].addr.Name)
		}
	}
	return out
}

// Stats returns the counts so far.
func (in *Instance) Stats() Stats {
	c := in.count
	s := Stats{
		PacketsIn: c.packetsIn.n.Load(), PacketsOut: c.packetsOut.n.Load(),
		BytesIn: c.bytesIn.n.Load(), BytesOut: c.bytesOut.n.Load(),
		DroppedIn: c.droppedIn.n.Load(), DroppedOut: c.droppedOut.n.Load(),
		LastPacket: boottime.Instant(in.ledger.heard.Load()),
		Probes:     c.probes.n.Load(), Answers: c.answers.n.Load(),
		Mode: c.modeName(), Samples: c.samples.n.Load(), Misses: c.misses.n.Load(), Sweeps: c.sweeps.n.Load(),
	}
	for _, t := range c.refused {
		s.Refused += t.n.Load()
	}
	if list := in.list.Load(); list != nil {
		s.Members, s.Health = list.NumMembers(), list.GetHealthScore()
	}
	return s
}
