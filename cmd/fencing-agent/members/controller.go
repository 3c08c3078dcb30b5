package members

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/k8s/memberbook"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	controllerLook    = time.Second      // between two looks at what has to wait
	controllerAddress = 10 * time.Second // between two looks at this node's addresses, and between two times that a list is shown
	controllerSilence = 30 * time.Second // after which a stream counts as dead; the server sends something every ten
	// controllerLines is the least time between two log lines about lists: a faulty controller could cause many.
	controllerLines   = 5 * time.Second
	controllerFirst   = time.Second
	controllerLongest = time.Minute
	// controllerSpread, times the nodes of the group, is the time over which new streams are spread when a replica
	// goes away.
	controllerSpread = 60 * time.Millisecond
)

// controllerSource is the list of members, and the state of this node's Node, as fencing-controller serves them. With
// it, the agent never asks the API server.
type controllerSource struct {
	cfg     *config.Config
	log     *slog.Logger
	clock   boottime.Clock
	version string
	found   func() (map[string]netip.Addr, error)
	waiting func(problem *atomic.Pointer[string]) (stop func())
	node    func(ownnode.State)
	nodeUID func() string
	reached func(bool)
	finds   func([]deaths.Death)
	metrics *controllerMetrics
	connect func(context.Context, string) (net.Conn, error) // in tests; nil: TCP
	present atomic.Pointer[roster.Roster]                   // the newest that the agent uses; nil: none yet
	waits   atomic.Bool                                     // the node waits for a first list to be founded

	// The goroutine of First owns the rest, and then that of Follow.
	gate    memberbook.Gate
	own     memberbook.Addresses // of this node
	looked  boottime.Instant     // at them
	offer   *memberbook.Offer    // the latest
	taken   *List                // the latest that passed the gate
	shown   boottime.Instant     // when it was
	again   boottime.Instant     // when to look at the offer again; 0: never
	judged  boottime.Instant     // when an offer was looked at last
	said    string               // the problem with lists that was logged last
	saidAt  boottime.Instant     // when that was; 0: never
	unsaid  string               // a problem that came too soon after it to be logged
	astray  bool                 // the controller has another address of this node: the agent sends its addresses again
	state   ownnode.State        // of the Node
	failing bool
}

var _ Source = (*controllerSource)(nil)

func newControllerSource(c *Config) *controllerSource {
	s := &controllerSource{
		cfg: c.Config, log: c.Logger, clock: c.Clock, version: c.Version, waiting: c.Waiting, node: c.Node, nodeUID: c.NodeUID, reached: c.Reached, finds: c.Found,
		metrics: newControllerMetrics(c.Registry), gate: memberbook.Gate{Group: c.Config.NodeGroup, Self: c.Config.NodeName},
	}
	s.found = func() (map[string]netip.Addr, error) { return addressesBy(c.Config, c.Local, s.present.Load()) }
	return s
}

// First implements Source: if nothing is remembered, it waits for a list with this node at its addresses.
func (c *controllerSource) First(ctx context.Context, remembered bool) (List, error) {
	if remembered {
		return List{}, nil
	}
	c.waits.Store(true)
	var problem atomic.Pointer[string]
	defer c.waiting(&problem)()
	wait := func(text string) {
		if p := problem.Load(); p == nil || *p != text {
			problem.Store(&text)
			c.log.Warn("waiting for the first list of members from the controller; the watchdog is not armed", "controller", c.cfg.Members.Controller.Address, "problem", text)
		}
	}
	wait("it has not answered yet")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var first List
	c.run(ctx, nil, wait, func(l List) { first = l; cancel() })
	if len(first.Members) == 0 {
		return List{}, fmt.Errorf("stopped while waiting for the first list from the controller: %s", *problem.Load())
	}
	return first, nil
}

func (c *controllerSource) Follow(ctx context.Context, again <-chan struct{}, found func(List)) {
	c.state = ownnode.State{} // nobody listened before
	c.run(ctx, again, func(string) {}, found)
}

// run follows the controller until ctx ends. trouble receives why there is no list.
func (c *controllerSource) run(ctx context.Context, again <-chan struct{}, trouble func(string), found func(List)) {
	backoff := client.Backoff{First: controllerFirst, Most: controllerLongest}
	for ctx.Err() == nil {
		answered, err := c.stream(ctx, again, trouble, found)
		c.metrics.connected(false)
		// Invariant: a death is reported only as long as a controller reports it. A controller that does not answer may
		// have heard from that node by now.
		if c.finds != nil {
			c.finds(nil)
		}
		if ctx.Err() != nil {
			return
		}
		c.answers(false)
		pause := c.pause(answered, err, &backoff)
		trouble(told(err))
		if !c.failing {
			c.failing = true
			c.log.Warn("cannot follow the controller; the known list of members stays in use", "controller", c.cfg.Members.Controller.Address, "error", told(err), "retry", pause)
		}
		boottime.Wait(ctx, pause)
	}
}

// answers reports whether the controller answers.
func (c *controllerSource) answers(is bool) {
	if c.reached != nil {
		c.reached(is)
	}
}

// pause is the time until the next stream. Two agents of one node end each other's streams, so the agent whose stream
// was ended waits longer each time.
func (c *controllerSource) pause(answered bool, err error, backoff *client.Backoff) time.Duration {
	if !answered || status.Code(err) == codes.Aborted {
		return backoff.Next(nil)
	}
	backoff.Reset() // one replica may have ended for all its agents
	return controllerFirst + boottime.Jitter(nil, c.spread())
}

func (c *controllerSource) spread() time.Duration {
	n := 0
	if r := c.present.Load(); r != nil {
		n = r.Size()
	}
	return min(controllerLongest, controllerFirst+time.Duration(n)*controllerSpread)
}

// told is an error in an operator's words.
func told(err error) string {
	if s, ok := status.FromError(err); ok && err != nil {
		return s.Code().String() + ": " + s.Message()
	}
	if err == nil {
		return "the controller ended the stream"
	}
	return err.Error()
}

var errSilent = errors.New("nothing was heard for " + controllerSilence.String())

// updated handles an update of the controller.
func (c *controllerSource) updated(u *fencingv1.MembersUpdate, trouble func(string), found func(List)) {
	c.answers(true)
	if c.failing {
		c.failing = false
		c.log.Info("following the controller again")
	}
	if n := u.GetNode(); n != nil && c.node != nil {
		s := ownnode.State{Known: true, Exists: n.GetExists(), UID: n.GetUid(), Version: n.GetVersion(), Deleting: n.GetDeleting(), Taints: n.GetTaints(), Annotations: n.GetAnnotations(), NotReady: n.GetNotReady()}
		if same := s.Equal(c.state); !same || s.Version != c.state.Version {
			c.state = s
			c.node(s)
		}
	}
	if p := u.GetProblem(); p != "" {
		trouble(p)
		c.note(p)
	}
	if d := u.GetFound(); d != nil && c.finds != nil {
		c.finds(deaths.OfFound(d))
	}
	if l := u.GetList(); l != nil {
		c.offer = offerOf(l)
		// Invariant: however many lists arrive, one is judged per second, the latest.
		if now := c.clock(); c.judged != 0 && now.Sub(c.judged) < controllerLook {
			c.again = c.judged.Add(controllerLook)
		} else {
			c.judge(trouble, found)
		}
	}
}

func offerOf(l *fencingv1.NumberedList) *memberbook.Offer {
	o := &memberbook.Offer{Group: l.GetGroup(), Epoch: l.GetEpoch(), Digest: l.GetDigest()}
	for _, m := range l.GetMembers() {
		o.Members = append(o.Members, roster.Member{Name: m.GetName(), Addresses: m.GetAddresses()})
	}
	return o
}

// judge passes the latest offer to the gate.
func (c *controllerSource) judge(trouble func(string), found func(List)) {
	now, waits := c.clock(), c.waits.Load()
	why, text, wait := c.gate.Look(c.offer, memberbook.Here{Own: c.own, Present: c.present.Load(), Founding: waits, Now: now, Wall: time.Now().Unix()})
	c.again, c.judged = 0, now
	switch why {
	case memberbook.NotHere:
		c.astray = true
	case memberbook.NotYet:
		c.again = now.Add(wait)
	case memberbook.Future: // the list is not sent again, but this node's clock may be corrected
		c.again = now.Add(controllerAddress)
	}
	if why != memberbook.Taken {
		c.metrics.refused(why)
		trouble(text)
		c.note("a list of epoch " + fmt.Sprint(c.offer.Epoch) + " is refused: " + text)
		return
	}
	c.said, c.unsaid = "", ""
	c.metrics.epoch(c.offer.Epoch)
	c.taken, c.shown = &List{Members: c.offer.Members, Numbered: true, Epoch: c.offer.Epoch, Founded: true, Waiting: waits}, now
	found(*c.taken)
}

// note logs a trouble with lists once, until there is another trouble.
func (c *controllerSource) note(text string) {
	switch now := c.clock(); {
	case c.said == text:
		c.unsaid = ""
	case c.saidAt != 0 && now.Sub(c.saidAt) < controllerLines:
		c.unsaid = text
	default:
		c.said, c.saidAt, c.unsaid = text, now, ""
		c.log.Warn("the controller shows no usable list of members; the known list stays in use", "problem", text)
	}
}

// tick handles what has to wait. It reports whether this node's addresses have to be sent again.
func (c *controllerSource) tick(trouble func(string), found func(List)) (moved bool) {
	now := c.clock()
	if now.Sub(c.looked) >= controllerAddress {
		if moved, _ = c.findOwn(); moved && c.offer != nil {
			c.again = now // the refused list may be acceptable now
		}
		if c.state.Known && c.node != nil {
			c.node(c.state) // a state that was older than the known one may be believed by now
		}
	}
	switch {
	case c.again != 0 && now >= c.again:
		c.judge(trouble, found)
	case c.taken != nil && c.taken.Waiting && !c.waits.Load():
		// Invariant: a list that passed without a check of its number is judged again once a list is in force.
		c.taken = nil
		c.judge(trouble, found)
	case c.taken != nil && now.Sub(c.shown) >= controllerAddress:
		// A list that was not accepted the first time may be accepted now.
		c.shown = now
		found(*c.taken)
	}
	if c.unsaid != "" {
		c.note(c.unsaid)
	}
	moved, c.astray = moved || c.astray, false
	return moved
}

// findOwn finds this node's addresses. If they cannot be found the last ones stay valid.
func (c *controllerSource) findOwn() (moved bool, err error) {
	c.looked = c.clock()
	found, err := c.found()
	if err != nil {
		return false, err
	}
	own := memberbook.Addresses{}
	for network, a := range found {
		own[network] = a.String()
	}
	moved = !maps.Equal(own, c.own)
	c.own = own
	return moved, nil
}
