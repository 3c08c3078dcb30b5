package agentsim

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/boottime/boottimetest"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/agent"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/gossip"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
	"github.com/fencing-agent/fencing-agent/k8s/apicheck"
	"github.com/fencing-agent/fencing-agent/netgossip/iface"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/watchdogtest"
)

// machine is one node. The world's mu guards its fields.
type machine struct {
	w     *world
	index int
	name  string

	powered  bool
	boot     uint64 // nonce
	bootedAt time.Duration
	dog      *watchdogtest.Device
	proc     *process           // nil: no agent runs
	slots    map[int]*lunClient // the client that has locked each slot
	clients  []*lunClient       // the clients of all its processes, in all its boots
	path     lunPath
	api      apiState
	carrier  []bool // by network
	breaks   breaking
	resets   int
	ordered  bool // somebody has ordered this boot to end
	obeyed   bool // the node has reported that it obeys that order
}

type apiState uint8

const (
	apiReachable apiState = iota
	apiSlow               // answers too late
	apiError              // refuses
)

type process struct {
	m         *machine
	stop      gate // shut while the process is stopped
	loop      gate // shut while its loop hangs
	leash     *leash
	cancel    context.CancelCauseFunc
	done      chan struct{} // Run has returned
	socket    *boottimetest.Pipes
	links     map[string]chan iface.Change // by network
	startedAt time.Duration

	// The world's mu guards what follows.
	ended     bool
	planned   bool
	endpoints []*endpoint
	disturbed time.Duration     // when the process was last stopped or continued
	deaths    map[string]string // by node: the nonce of the boot that its subscriber knows to be dead
	breaks    breaking          // how it breaks ties, whatever its configuration file contains now
	hungAt    time.Duration     // since when the loop has hung, while it hangs
	hungIn    int               // nodes that were in contact at that moment, and had been for a while
	listEpoch int               // epoch of the list of members that its subscriber knows to be in force
	holding   bool              // it reports that it holds by the LUN, without quorum
	saidSince time.Duration     // since when it has reported so, or the opposite
}

// now is the clock of a machine. Boots are hours apart, so that an instant of another boot or machine cannot look right
// by chance.
func (m *machine) now() boottime.Instant {
	return boottime.Instant(time.Hour)*boottime.Instant(m.index+1) + boottime.Instant(m.w.now())
}

func (m *machine) powerOn() {
	w := m.w
	w.mu.Lock()
	if m.powered {
		w.mu.Unlock()
		return
	}
	m.powered, m.boot, m.bootedAt, m.ordered, m.obeyed = true, w.rng.Uint64()|1, w.now(), false, false
	m.slots = map[int]*lunClient{}
	boot := m.boot
	m.dog = watchdogtest.New(watchdogtest.Config{
		Clock: m.now, BootFencing: m.resets > 0, NoWayOut: w.s.NoWayOut, Hides: w.s.Hides,
		Identity: w.s.driver(m.index), Measured: measuredOf(w.s.driver(m.index)).Measured, Least: leastOf(w.s.driver(m.index)), Late: func(timeout time.Duration) time.Duration { return lateBy(w.s.driver(m.index), timeout) },
		OnFire: func(boottime.Instant) { m.reset(boot) },
	})
	w.mu.Unlock()
	w.conditionsChanged(func() {})
	m.startAgent()
}

// silentDriver is a watchdog that accepts everything and never fires.
const silentDriver = "silent"

// measuredDriver fires late, which only a test on the machine reveals.
const measuredDriver = "board"

// measuredOf is what the agent knows about a driver before it is armed.
func measuredOf(driver string) watchdog.Driver {
	d := watchdog.Driver{Identity: driver}
	if driver == measuredDriver {
		d.Measured = watchdog.Measured{Fired: true, Offset: 10 * time.Second, Factor: 2}
	}
	return d
}

// lateBy returns when a watchdog really fires, as measured. That of the chipset counts down twice, and the IB700 counts
// only even seconds. The agents have to allow for it.
func lateBy(driver string, timeout time.Duration) time.Duration {
	switch driver {
	case silentDriver:
		return 24 * time.Hour
	case "iTCO_wdt", measuredDriver:
		return 2 * timeout
	case "IB700 WDT":
		return (timeout + time.Second) / (2 * time.Second) * (2 * time.Second)
	}
	return timeout
}

func leastOf(driver string) time.Duration {
	if driver == "iTCO_wdt" {
		return 3 * time.Second
	}
	return 0
}

func (m *machine) reset(boot uint64) {
	w := m.w
	w.mu.Lock()
	if !m.powered || m.boot != boot {
		w.mu.Unlock()
		return
	}
	m.powered = false
	m.resets++
	w.check.fired(m)
	p := m.proc
	w.mu.Unlock()
	w.note(m.name, "RESET by its watchdog")
	w.conditionsChanged(func() {})
	m.end(p)
	w.after(w.s.Reboot, m.powerOn)
}

// startAgent starts a process, unless one runs or the machine is off.
func (m *machine) startAgent() {
	w := m.w
	w.mu.Lock()
	if !m.powered || m.proc != nil || !w.lists.listed(m.index) {
		w.mu.Unlock()
		return
	}
	epoch := w.lists.onFile[m.index]
	members := w.lists.all[epoch]
	ctx, cancel := context.WithCancelCause(w.ctx)
	p := &process{
		m: m, cancel: cancel, done: make(chan struct{}), socket: boottimetest.NewPipes(&net.UnixAddr{Name: "simulated", Net: "unix"}),
		links: map[string]chan iface.Change{}, breaks: m.breaks, startedAt: w.now(), saidSince: w.now(), disturbed: w.now(), deaths: map[string]string{},
	}
	for _, n := range networkNames {
		p.links[n] = make(chan iface.Change, 16)
	}
	p.leash = &leash{p: p}
	m.proc = p
	boot, breaks, booted := m.boot, m.breaks, boottime.Instant(time.Hour)*boottime.Instant(m.index+1)+boottime.Instant(m.bootedAt)
	w.mu.Unlock()
	w.note(m.name, "agent starts")
	w.conditionsChanged(func() {})
	cfg := w.s.agentConfig(m.index, w.dir, epoch, members, breaks)
	var dog watchdog.Device // nil: the agent's own dry run
	if !w.s.DryRun {
		dog = p.leash
	}
	w.group.Go(func() {
		err := agent.Run(ctx, agent.Options{
			Config: cfg, ConfigPath: w.configPath(m.index), Logger: slog.New(&recorder{p: p}), Version: agentVersion, Clock: m.now, Listen: p.listen,
			Links: gossip.Links{Find: p.findLink, Watch: p.watchLinks}, Socket: p.socket, Watchdog: dog, OpenLUN: p.openLUN,
			ProbeAPI: p.probeAPI, OpenLease: p.openLease(cfg.LeaseRequestTimeout()), Boot: boot, Booted: booted, Hold: p.hold, MayTell: anybody, Registry: prometheus.NewRegistry(),
		})
		close(p.done)
		w.exited(p, err)
	})
	w.group.Go(func() { p.subscribe(ctx) })
}

// end makes a process vanish without a last message, and waits until it is gone.
func (m *machine) end(p *process) {
	if p == nil {
		return
	}
	w := m.w
	w.mu.Lock()
	if p.ended {
		w.mu.Unlock()
		return
	}
	p.ended = true
	endpoints, clients := p.endpoints, slices.Clone(m.clients)
	if m.proc == p {
		m.proc = nil
	}
	if !m.powered {
		clear(m.slots)
	}
	w.mu.Unlock()
	p.leash.dead.Store(true)
	for _, c := range clients {
		if c.p != p {
			continue
		}
		c.dead.Store(true)
		c.SetFaults(diskquorumtest.Dead())
	}
	for _, e := range endpoints {
		e.vanish()
	}
	p.cancel(agent.ErrAbandon)
	p.stop.open()
	p.loop.open()
	_ = p.socket.Close() // never fails
}

// kill is SIGKILL. The kernel closes the watchdog, which restarts its countdown. If restart is set, a new agent starts
// as soon as the old one is gone.
func (m *machine) kill(restart bool) {
	m.w.mu.Lock()
	p := m.proc
	m.w.mu.Unlock()
	if p == nil {
		return
	}
	if restart {
		defer m.w.group.Go(func() {
			<-p.done
			m.startAgent()
		})
	}
	m.w.note(m.name, "agent is killed")
	m.end(p)
	m.dog.Kill()
	m.w.conditionsChanged(func() {})
}

// upgrade is SIGTERM; a new agent starts when the old one has been gone for the given time.
func (m *machine) upgrade(down time.Duration) {
	m.w.mu.Lock()
	p := m.proc
	if p != nil {
		p.planned = true
		p.disturbed = m.w.now()
	}
	m.w.mu.Unlock()
	if p == nil {
		return
	}
	m.w.note(m.name, "agent is told to stop")
	p.cancel(nil)
	m.w.group.Go(func() {
		<-p.done
		m.w.after(down, m.startAgent)
	})
}

// freeze stops the process, or continues it.
func (m *machine) freeze(on bool) {
	m.w.mu.Lock()
	p := m.proc
	if p == nil || p.stop.isShut() == on {
		m.w.mu.Unlock()
		return
	}
	p.disturbed = m.w.now()
	m.w.mu.Unlock()
	if on {
		p.stop.shut()
		m.w.note(m.name, "agent is frozen")
	} else {
		p.stop.open()
		m.w.note(m.name, "agent goes on")
	}
	m.w.conditionsChanged(func() {})
}

// hangLoop makes only the deciding loop hang for a while.
func (m *machine) hangLoop(d time.Duration) {
	m.w.mu.Lock()
	p := m.proc
	if p == nil || p.loop.isShut() {
		m.w.mu.Unlock()
		return
	}
	p.disturbed, p.hungAt = m.w.now(), m.w.now()
	p.hungIn = m.w.check.contacts(m.index)
	p.loop.shut()
	m.w.mu.Unlock()
	m.w.after(speaksOn, func() { m.w.conditionsChanged(func() {}) })
	m.w.after(d, func() {
		m.w.mu.Lock()
		p.disturbed = m.w.now()
		m.w.mu.Unlock()
		p.loop.open()
		m.w.conditionsChanged(func() {})
	})
}

// The agent's loop waits in hold while it cannot run.
func (p *process) hold() error {
	p.stop.pass()
	p.loop.pass()
	if p.leash.dead.Load() {
		return agent.ErrAbandon // the context does not contain this cause if the agent was stopped before
	}
	return nil
}

// exited handles the end of a process that the simulation did not make vanish.
func (w *world) exited(p *process, err error) {
	w.mu.Lock()
	vanished := p.ended
	p.ended = true
	if p.m.proc == p {
		p.m.proc = nil
	}
	planned := p.planned
	rival := p.m.slotHeldByDead()
	if !vanished && !planned && !rival {
		w.check.gone(p, err)
	}
	w.mu.Unlock()
	_ = p.socket.Close()
	if vanished {
		return
	}
	w.note(p.m.name, fmt.Sprintf("agent ended: %v", err))
	if rival {
		w.after(serviceRestart, p.m.startAgent)
	}
	if err != nil {
		// The kernel closes the watchdog together with the process, which restarts its countdown.
		p.m.dog.Kill()
	}
	w.conditionsChanged(func() {})
}

// serviceRestart is the time after which the service manager restarts an agent that failed.
const serviceRestart = 2 * time.Second

// slotHeldByDead reports whether an I/O in flight of an earlier process keeps a slot locked. A new agent must not
// ignore that lock. The caller holds mu.
func (m *machine) slotHeldByDead() bool {
	for _, c := range m.slots {
		if c.p.ended {
			return true
		}
	}
	return false
}

func (p *process) findLink(q iface.Query) (iface.Local, error) {
	return iface.Local{Network: q.Network, Address: q.Address, Interface: interfaceNames[q.Network], Index: 1}, nil
}

func (p *process) watchLinks(ctx context.Context, c iface.WatchConfig) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case change := <-p.links[c.Networks[0].Network]:
			p.stop.pass()
			change.Local, change.At = c.Networks[0], c.Clock()
			c.Changed(change)
		}
	}
}

// probeAPI asks the API server as apicheck does: every two seconds, with a timeout of one second.
func (p *process) probeAPI(ctx context.Context, pace *apicheck.Pace, report func(bool, boottime.Instant)) {
	draw := rand.New(rand.NewPCG(uint64(p.m.now()), 1))
	for ctx.Err() == nil {
		p.stop.pass()
		began, at := time.Now(), p.m.now()
		p.m.w.mu.Lock()
		state := p.m.api
		p.m.w.mu.Unlock()
		if state == apiSlow {
			time.Sleep(time.Second)
		}
		report(state == apiReachable, at)
		pace.Wait(ctx, began, draw)
	}
}

// subscribe follows the agent's events, like a consumer on the node.
func (p *process) subscribe(ctx context.Context) {
	conn := p.client()
	defer conn.Close()
	p.m.w.group.Go(func() {
		again(ctx, func() { p.watchDeaths(ctx, fencingv1.NewFencingStatusClient(conn), fencingv1.NewFencingClient(conn)) })
	})
	again(ctx, func() { p.follow(ctx, fencingv1.NewFencingClient(conn)) })
}

// again calls f whenever it has returned: the agent may have no view yet, or may be ending.
func again(ctx context.Context, f func()) {
	for ctx.Err() == nil {
		f()
		pause := time.NewTimer(500 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// follow reads one stream of events to its end.
func (p *process) follow(ctx context.Context, client fencingv1.FencingClient) {
	stream, err := client.StreamEvents(ctx, &emptypb.Empty{}, grpc.WaitForReady(true))
	if err != nil {
		return
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			return
		}
		p.m.w.published(p, event)
	}
}

// watchDeaths acts like a subscriber that takes over what dead nodes had. With each status it also asks for the
// available nodes.
func (p *process) watchDeaths(ctx context.Context, client fencingv1.FencingStatusClient, nodes fencingv1.FencingClient) {
	stream, err := client.WatchStatus(ctx, &emptypb.Empty{}, grpc.WaitForReady(true))
	if err != nil {
		return
	}
	for {
		status, err := stream.Recv()
		if err != nil {
			return
		}
		p.m.w.proven(p, status)
		if all, err := nodes.GetAll(ctx, &emptypb.Empty{}); err == nil {
			p.m.w.told(p, status, all)
		}
	}
}

// agentConfig is the configuration of one node's agent.
func (s *Schedule) agentConfig(node int, dir string, epoch int, members []int, breaks breaking) *config.Config {
	text := s.yaml(node, dir, epoch, members, breaks)
	cfg, _, err := config.Parse("simulated", []byte(text), func(string) string { return "" })
	if err != nil {
		panic(fmt.Sprintf("agentsim: its own configuration is refused: %v\n%s", err, text))
	}
	return cfg
}
