package agent

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/gossip"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/members"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/parts"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/picture"
	"github.com/fencing-agent/fencing-agent/diskquorum/keeper"
	"github.com/fencing-agent/fencing-agent/k8s/apicheck"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/leasequorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/netgossip/swim"
	"github.com/fencing-agent/fencing-agent/procfs"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

// Options is what Run needs besides the configuration. The comment of a field names the default for its zero value.
type Options struct {
	Config *config.Config
	// ConfigPath is the file of Config: its list of members is read again when the file changes. Empty: never.
	ConfigPath string
	Logger     *slog.Logger
	Version    string

	Clock      boottime.Clock                        // boottime.Now
	Listen     swim.Listener                         // real sockets
	Links      gossip.Links                          // netlink
	Socket     net.Listener                          // a Unix socket at api.socket
	Watchdog   watchdog.Device                       // as configured
	OpenLUN    func(path string) (keeper.LUN, error) // O_DIRECT
	ProbeAPI   ProbeAPI                              // requests to the API server of the kubeconfig
	OpenLease  OpenLease                             // a Lease of that API server
	Kubernetes *client.Client                        // as configured
	Members    members.Source                        // as configured
	Store      wdt.Store                             // systemd's store for the watchdog's descriptor, if this unit has one
	Strike     func() error                          // as watchdog.onFence configures; called once, instead of waiting for the watchdog
	Boot       uint64                                // nonce of the kernel's boot; 0: from boot_id
	Booted     boottime.Instant                      // when that kernel booted, by Clock; 0: at its zero
	Machine    uint64                                // identity of the machine; 0 with Boot 0: that of the hardware
	Ready      func(socket string)                   // called once the socket answers
	MayTell    func(context.Context) error           // who may report deaths and give orders; as api.commands says
	Hold       func() error                          // called by the loop before each step: blocks while a simulated process is stopped; an error ends it like a kill
	Registry   *prometheus.Registry                  // its own
}

// ProbeAPI checks until ctx ends, at the given pace, whether the Kubernetes API is reachable. It reports each answer
// with the instant of its question.
type ProbeAPI func(ctx context.Context, pace *apicheck.Pace, report func(reachable bool, at boottime.Instant))

// OpenLease creates the register of the Lease that breaks ties; the register calls report.
type OpenLease func(report func(leasequorum.Completion)) LeaseRegister

// stopLimit is how long each part that has to be waited for may take to stop.
const stopLimit = 5 * time.Second

// spawn runs a function in the background, until the agent has stopped.
type spawn func(func(context.Context))

// Agent is one running agent. The loop owns all fields, except where a field says otherwise.
type Agent struct {
	opts  Options
	cfg   *config.Config
	log   *slog.Logger
	clock boottime.Clock
	self  identity

	box     *mailbox // from the adapters to the loop
	life    life
	core    *watchdog.Core
	roster  *roster.Roster   // all indices of nodes are those of this roster
	members *members.Members // their lists
	terms   termsWork

	guard  guard
	gossip *gossip.Networks
	lun    lunSet
	kube   kube

	published published
	metrics   *picture.Metrics
	links     links
	deaths    deaths
	leaving   leaving
}

// identity identifies this agent.
type identity struct {
	boot    uint64 // nonce of the kernel's boot
	machine uint64 // digest of the machine's name; 0: it has none
	process uint64 // random, of this run of the agent
	started boottime.Instant
}

// life is the state of the loop.
type life struct {
	work  batch            // what the loop is handling
	began boottime.Instant // of the loop
	alive atomic.Int64     // last step, on the clock; any goroutine may read it
}

// kube is the agent's connection to an API server.
type kube struct {
	client *client.Client // nil: the agent talks to no API server
	node   *nodeSignals   // nil: this node's Node is not followed
	marks  *nodeMarks     // nil: nothing is written there
	deaths *kubeDeaths    // nil: no deaths are reported there
	lease  *kubeLease     // nil: no Lease breaks ties

	unheard   atomic.Bool    // the API server or controller that shows this node's Node no longer answers; set by the goroutine that follows the Node
	sightings *kubeSightings // nil: no sightings are reported, so none delay fencing
	finds     *members.Finds // deaths that the controller has found out
	pace      *apicheck.Pace // how often the API server is checked
}

// Run runs an agent until ctx ends. Then it makes a planned stop: it announces the stop to the peers and on the LUN,
// and disarms the watchdog. If the agent cannot start or continue, Run returns an error that says what to do.
func Run(ctx context.Context, o Options) error {
	a, err := prepare(ctx, o)
	if err != nil {
		return err
	}
	return a.run(ctx)
}

// prepare builds everything that needs no socket and no device. If it remembers no list of members, it waits for the
// first.
func prepare(ctx context.Context, o Options) (*Agent, error) {
	c, tried := knowingDriver(&o)
	a := &Agent{opts: o, cfg: c, log: o.Logger, clock: o.Clock, self: identity{boot: o.Boot, machine: o.Machine}}
	a.kube.pace = apicheck.NewPace(apiSeldom, apiInterval)
	if a.log == nil {
		a.log = slog.Default()
	}
	a.log = a.log.With("node", c.NodeName, "group", c.NodeGroup)
	if a.clock == nil {
		a.clock = boottime.Now
	}
	if a.opts.Registry == nil {
		a.opts.Registry = prometheus.NewRegistry()
		a.opts.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	if a.opts.Links.Find == nil {
		a.opts.Links = gossip.RealLinks()
	}
	var err error
	if a.self.boot == 0 {
		if a.self.machine == 0 {
			a.self.machine = machineIdentity("/")
		}
		if a.self.boot, err = procfs.BootNonce("/proc"); err != nil {
			return nil, err
		}
	}
	var p [8]byte
	_, _ = rand.Read(p[:]) // never fails (crypto/rand)
	a.self.process = binary.LittleEndian.Uint64(p[:]) | 1
	a.published.parts = parts.New(a.log, a.opts.Registry)
	if err := a.openKubernetes(); err != nil {
		return nil, err
	}
	a.published.unsaved = newUnsaved(a.opts.Registry)
	a.members = a.newMembers()
	succession, directory, err := a.members.Begin(ctx)
	if err != nil {
		return nil, err
	}
	a.roster = directory
	a.published.left, a.deaths.known = make([]time.Time, a.roster.Size()), make([]watchdog.Death, a.roster.Size())
	a.self.started = a.clock()
	a.guard.cfg, a.guard.log, a.guard.clock, a.guard.strike, a.guard.store = c, a.log, a.clock, o.Strike, o.Store
	a.guard.parts, a.guard.tried = a.published.parts, tried
	a.life.alive.Store(int64(a.self.started))
	a.box = newMailbox(len(c.SystemNetworks), a.roster)
	a.metrics = picture.NewMetrics(a.opts.Registry, c, o.Version)
	a.guard.disable = a.newDisableFile()
	a.guard.maintenances.order = a.cfg.Watchdog.DisableOrder()
	a.published.history.recorder = a.newRecorder()
	a.gossip = a.newGossip()
	a.links.edges = netgossip.NewEdges(len(c.SystemNetworks), a.roster.Size())
	core := coreConfig(c, a.roster, a.self.boot, o.Version)
	core.Succession, core.Machine, core.Booted = succession, a.self.machine, o.Booted
	a.core = watchdog.NewCore(core)
	return a, nil
}

func coreConfig(c *config.Config, r *roster.Roster, boot uint64, version string) watchdog.Config {
	w := watchdog.Config{
		Roster: r, Networks: len(c.SystemNetworks), Policy: c.Reachability.Policy(), Quorum: int(c.Quorum.Size),
		MaxAge: c.EvidenceMaxAge(), APIMaxAge: apiMaxAge, Arbitrate: c.ArbitrationBudget(), RestartGrace: c.RestartGrace, Budget: c.BudgetFor(c.LatestReset(), r.Size()),
		Outside: c.API.Commands != config.CommandsNone, Orders: c.API.Commands != config.CommandsNone, Sentence: c.Sentencing(), LUNLostAsksAPI: c.LUNLostAsksAPI(), Boot: boot, Version: version,
	}
	w.LUN, w.API = c.BreaksTiesBy(config.BreakerLUN), c.BreaksTiesBy(config.BreakerKubernetes)
	if len(c.LUN.Devices) > 0 {
		w.LUNMode = map[config.LUNMode]watchdog.LUNMode{config.LUNOr: watchdog.LUNOr, config.LUNAnd: watchdog.LUNAnd}[c.LUN.Mode]
		w.Hold = c.LUN.Hold
		w.Window = func(members int) time.Duration {
			return c.EvidenceMaxAge() + c.ParamsFor(members).SamplingDelay(members, len(c.SystemNetworks))
		}
		w.LUNGrace = watchdog.LUNGrace(c.LUN.HeartbeatInterval, c.LUN.IOTimeout, c.EvidenceMaxAge())
	}
	switch c.OnQuorumLoss {
	case config.LossExclude:
		w.OnLoss = watchdog.LossExclude
	case config.LossWait:
		w.OnLoss = watchdog.LossWait
	default:
		w.OnLoss = watchdog.LossFence
	}
	return w
}

// run starts the parts in order, runs the loop, and stops them in reverse.
func (a *Agent) run(ctx context.Context) (err error) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	background := func(f func(context.Context)) { wg.Go(func() { f(work) }) }

	stopServing, err := a.startServing(background)
	if err != nil {
		return err
	}
	defer stopServing()
	if err := a.beAlone(background); err != nil {
		return err
	}
	if err := a.startLUN(background); err != nil {
		return err
	}
	if err := a.members.Keep(); err != nil {
		return err
	}
	if err := a.startBreaker(background); err != nil {
		return err
	}
	if err := a.beginTerms(); err != nil {
		return err
	}
	background(a.runTerms)
	stopFeeder, err := a.guard.start(a.opts.Watchdog, a.opts.Registry, func(s wdt.State) {
		a.guard.noteState(&s)
		a.box.put(func(b *batch) { b.feeder = &s })
	})
	if err != nil {
		return err
	}
	endFeeder := sync.OnceFunc(func() { err = errors.Join(err, stopFeeder(err, abandoned(ctx))) })
	defer endFeeder()
	a.beginSentence(background)
	a.startHistory(background)
	background(a.guard.followStore)
	background(a.guard.followMissing)
	if err := a.startReports(background); err != nil {
		return err
	}
	background(a.kube.finds.Run)
	if err := a.startMarks(background); err != nil {
		return err
	}
	stopGossip, err := a.gossip.Start(background)
	if err != nil {
		return err
	}
	defer stopGossip()
	// The magic close comes first: it no longer needs peers, and stopping the gossip may take longer than the
	// permission to feed lasts. Once that has ended, the watchdog must not be disarmed.
	defer endFeeder()
	if err := a.startSignals(background); err != nil {
		return err
	}
	a.members.Start(background)
	a.warnCrowded()
	a.log.Info("agent started", "version", a.opts.Version, "members", a.core.Rosters().Size(), "quorum", a.core.Rosters().Quorum(),
		"networks", len(a.cfg.SystemNetworks), "d_max", a.cfg.EvidenceMaxAge(), "boot", fmt.Sprintf("%016x", a.self.boot))
	if a.opts.Ready != nil {
		a.opts.Ready(a.cfg.API.Socket)
	}
	return a.loop(ctx)
}
