package observe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

const (
	// MaxAge is the time for which a status is believed. Agents repeat it every few seconds.
	MaxAge = 15 * time.Second
	// reopenAfter is the pause before a broken stream is opened again.
	reopenAfter = 100 * time.Millisecond
	// recheckInterval limits how late the observer notices that a status has grown old or that an agent has ended:
	// neither causes a change.
	recheckInterval = 200 * time.Millisecond
)

// Source provides access to the agents.
type Source interface {
	Nodes() []string
	Status(node string) (*grpc.ClientConn, error)
	Exited(node string) error
}

// Event is a LEFT or JOIN that an agent sent.
type Event struct {
	Observer string // the agent that sent it
	Node     string // the node that the event is about
	Type     fencingv1.EventType
	At       time.Time // when it arrived
	Message  *fencingv1.Event
}

// Change is a change of an agent's verdict.
type Change struct {
	Node       string
	Permission fencingv1.Permission
	Reason     fencingv1.Reason
	At         time.Time // when it arrived
}

// View contains what is known of all agents at one moment.
type View struct {
	Now time.Time
	// Status contains the statuses of the agents that answer.
	Status map[string]*fencingv1.Status
	// Subscribed lists the agents that have accepted a subscriber. After that none of their events is missed.
	Subscribed map[string]bool
	// Heard contains, for those agents, the number in Status.revision up to which all events have arrived.
	Heard map[string]uint64
	// Events and Verdicts contain everything since the observer began.
	Events   []Event
	Verdicts []Change
}

// Observer watches all agents of a cluster.
type Observer struct {
	source  Source
	cancel  context.CancelFunc
	readers sync.WaitGroup
	conns   map[string]*grpc.ClientConn

	mu       sync.Mutex // guards all fields below
	status   map[string]*fencingv1.Status
	received map[string]time.Time
	accepted map[string]bool   // StreamEvents is open
	heard    map[string]uint64 // the revision after the last event received
	events   []Event
	verdicts []Change
	changed  chan struct{} // closed and replaced at every change
}

// New begins to watch. The agents need not be running yet.
func New(source Source) (*Observer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	o := &Observer{
		source: source, cancel: cancel, conns: map[string]*grpc.ClientConn{},
		status: map[string]*fencingv1.Status{}, received: map[string]time.Time{},
		accepted: map[string]bool{}, heard: map[string]uint64{}, changed: make(chan struct{}),
	}
	for _, node := range source.Nodes() {
		conn, err := source.Status(node)
		if err != nil {
			o.Close()
			return nil, fmt.Errorf("observe node %s: %w", node, err)
		}
		o.conns[node] = conn
	}
	for node, conn := range o.conns {
		o.readers.Go(func() { o.again(ctx, func() { o.readStatus(ctx, node, conn) }) })
		o.readers.Go(func() { o.again(ctx, func() { o.readEvents(ctx, node, conn) }) })
	}
	return o, nil
}

// Close ends all streams and waits for their readers.
func (o *Observer) Close() {
	o.cancel()
	o.readers.Wait()
	for _, conn := range o.conns {
		conn.Close()
	}
}

// Conn returns the observer's connection to the node's agent, for single calls.
func (o *Observer) Conn(node string) *grpc.ClientConn { return o.conns[node] }

func (o *Observer) again(ctx context.Context, read func()) {
	for ctx.Err() == nil {
		read()
		select {
		case <-ctx.Done():
		case <-time.After(reopenAfter):
		}
	}
}

func (o *Observer) readStatus(ctx context.Context, node string, conn *grpc.ClientConn) {
	stream, err := fencingv1.NewFencingStatusClient(conn).WatchStatus(ctx, &emptypb.Empty{})
	if err != nil {
		return
	}
	for {
		status, err := stream.Recv()
		o.noteStatus(node, status, err)
		if err != nil {
			return
		}
	}
}

func (o *Observer) noteStatus(node string, status *fencingv1.Status, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		if o.status[node] != nil {
			delete(o.status, node)
			o.announce()
		}
		return
	}
	now := time.Now()
	change := Change{Node: node, Permission: status.GetVerdict().GetPermission(), Reason: status.GetVerdict().GetReason(), At: now}
	last := o.lastVerdict(node)
	if last == nil || last.Permission != change.Permission || last.Reason != change.Reason {
		o.verdicts = append(o.verdicts, change)
	}
	o.status[node], o.received[node] = status, now
	o.announce()
}

func (o *Observer) lastVerdict(node string) *Change {
	for i := len(o.verdicts) - 1; i >= 0; i-- {
		if o.verdicts[i].Node == node {
			return &o.verdicts[i]
		}
	}
	return nil
}

func (o *Observer) readEvents(ctx context.Context, node string, conn *grpc.ClientConn) {
	stream, err := fencingv1.NewFencingClient(conn).StreamEvents(ctx, &emptypb.Empty{})
	if err != nil {
		return
	}
	header, err := stream.Header()
	if err != nil || header == nil {
		return // the agent refuses
	}
	revision, err := strconv.ParseUint(strings.Join(header.Get(fencingv1.RevisionHeader), " "), 10, 64)
	if err != nil {
		return // there is no agent
	}
	o.noteSubscribed(node, true, revision)
	defer o.noteSubscribed(node, false, 0)
	for {
		event, err := stream.Recv()
		if err != nil {
			return
		}
		o.mu.Lock()
		o.events = append(o.events, Event{
			Observer: node, Node: event.GetNode().GetName(), Type: event.GetType(), At: time.Now(), Message: event,
		})
		o.heard[node]++
		o.announce()
		o.mu.Unlock()
	}
}

func (o *Observer) noteSubscribed(node string, accepted bool, revision uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.accepted[node], o.heard[node] = accepted, revision
	o.announce()
}

// announce wakes all waiters; the caller holds the lock.
func (o *Observer) announce() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// View returns the present state and a channel that is closed at the next change.
func (o *Observer) View() (*View, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	v := &View{
		Now: now, Status: maps.Clone(o.status), Subscribed: maps.Clone(o.accepted), Heard: maps.Clone(o.heard),
		Events: slices.Clip(o.events), Verdicts: slices.Clip(o.verdicts),
	}
	maps.DeleteFunc(v.Status, func(node string, _ *fencingv1.Status) bool { return now.Sub(o.received[node]) > MaxAge })
	return v, o.changed
}

// Condition returns what is still missing, or "" when it holds.
type Condition func(*View) string

// Await waits until the condition holds and returns the View in which it held.
func (o *Observer) Await(ctx context.Context, within time.Duration, c Condition) (*View, error) {
	v, missing, err := o.follow(ctx, within, c, func(missing string) bool { return missing == "" })
	if err == nil && missing != "" {
		err = fmt.Errorf("not within %v: %s", within.Round(100*time.Millisecond), missing)
	}
	return v, err
}

// Hold checks that the condition holds now and at every change for the whole time.
func (o *Observer) Hold(ctx context.Context, during time.Duration, c Condition) (*View, error) {
	began := time.Now()
	v, missing, err := o.follow(ctx, during, c, func(missing string) bool { return missing != "" })
	if err == nil && missing != "" {
		err = fmt.Errorf("no longer after %v: %s", time.Since(began).Round(100*time.Millisecond), missing)
	}
	return v, err
}

// follow evaluates the condition at every change until it has seen enough or the time is up.
func (o *Observer) follow(ctx context.Context, limit time.Duration, c Condition, enough func(missing string) bool) (*View, string, error) {
	end := time.NewTimer(limit)
	defer end.Stop()
	recheck := time.NewTicker(recheckInterval)
	defer recheck.Stop()
	for {
		v, changed := o.View()
		missing := c(v)
		if enough(missing) {
			return v, missing, nil
		}
		if err := o.exited(); err != nil {
			return v, missing, err
		}
		select {
		case <-changed:
		case <-recheck.C:
		case <-end.C:
			return v, missing, nil
		case <-ctx.Done():
			return v, missing, context.Cause(ctx)
		}
	}
}

func (o *Observer) exited() error {
	for _, node := range o.source.Nodes() {
		if err := o.source.Exited(node); err != nil {
			return err
		}
	}
	return nil
}
