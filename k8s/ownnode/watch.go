package ownnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/client"
)

const (
	askTimeout = 10 * time.Second
	// openTimeout limits the wait for the headers of a watch, which a server sends at once.
	openTimeout = 15 * time.Second
	// quiet is the longest time in which nothing may arrive on a watch. Bookmarks arrive every minute, and the kubelet
	// writes the status at least every five minutes. A dead connection is closed after 45 s, by a ping of HTTP/2; a
	// longer silence means that something in between keeps the connection open. A shorter limit would cost requests for
	// nothing.
	quiet = 6 * time.Minute
	// shortWatch is the duration up to which the end of a watch counts as a failure: if every watch ended at once, the
	// requests would be a storm.
	shortWatch   = 30 * time.Second
	firstPause   = time.Second
	longestPause = time.Minute
)

// Config is what a [Watcher] needs. Logger, which names the node, and Rand may be nil.
type Config struct {
	Client rest.Interface // of the core group
	Node   string
	Logger *slog.Logger
	// Remembered is the state from before a restart; the zero value means that there is none.
	Remembered State
	// OnState gets each change of the state, from Run's goroutine.
	OnState func(State)
	// OnReach gets whether the API server has answered the last request: once at the start, and each time that this
	// changes. It may be nil. It is called from Run's goroutine.
	OnReach func(bool)
	// Rand spreads the requests of many nodes over time. It is used by Run's goroutine only.
	Rand *rand.Rand
}

// Watcher follows one Node.
type Watcher struct {
	cfg     Config
	log     *slog.Logger
	state   State
	version string // of the known state; empty: a list is needed
	failing bool
	reach   *bool // the last value that OnReach got; nil: none yet
}

// New returns a watcher that has asked nothing yet.
func New(c Config) (*Watcher, error) {
	if c.Client == nil || c.Node == "" || c.OnState == nil {
		return nil, errors.New("own node: client, name and state function are mandatory")
	}
	w := &Watcher{cfg: c, log: c.Logger, state: c.Remembered}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	return w, nil
}

// Run follows the Node until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	backoff := client.Backoff{First: firstPause, Most: longestPause, Rand: w.cfg.Rand}
	for ctx.Err() == nil {
		err := w.round(ctx)
		if ctx.Err() != nil {
			return
		}
		pause := boottime.Jitter(w.cfg.Rand, firstPause) // all watches may have ended with the same server
		if err == nil {
			backoff.Reset()
		} else {
			pause = backoff.Next(err)
		}
		w.note(err, pause)
		if err != nil {
			w.reached(answers(err))
		}
		boottime.Wait(ctx, pause)
	}
}

// answers reports whether an error is an answer of the API server, and not a lack of one.
func answers(err error) bool {
	var said apierrors.APIStatus
	return errors.Is(err, errShort) || errors.As(err, &said)
}

// reached reports to OnReach whether the API server has answered.
func (w *Watcher) reached(is bool) {
	if w.cfg.OnReach != nil && (w.reach == nil || *w.reach != is) {
		w.reach = &is
		w.cfg.OnReach(is)
	}
}

// note logs the beginning and the end of trouble, not each attempt.
func (w *Watcher) note(err error, pause time.Duration) {
	switch {
	case err != nil && !w.failing:
		w.failing = true
		w.log.Warn("cannot follow this node's Node; its last known state stays in effect", "error", err, "retry", pause)
	case err == nil && w.failing:
		w.failing = false
		w.log.Info("following this node's Node again")
	}
}

var errShort = errors.New("the watch ended at once")

// round lists the Node unless its state is known, and watches it until the watch ends.
func (w *Watcher) round(ctx context.Context) error {
	if w.version == "" {
		if err := w.ask(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	err := w.watch(ctx)
	if err == nil && time.Since(began) < shortWatch {
		return errShort
	}
	return err
}

// ask lists the one Node. A GET would not be enough: it returns the version of the Node's last change. The server may
// have forgotten that version long ago, and then no watch can start from it.
func (w *Watcher) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	list := &client.NodeList{}
	if err := w.request().Do(ctx).Into(list); err != nil {
		return err
	}
	w.reached(true)
	w.version = list.ResourceVersion
	for i := range list.Items {
		if list.Items[i].Name == w.cfg.Node {
			w.learn(StateOf(&list.Items[i]))
			return nil
		}
	}
	if !w.state.Known {
		// There may be a mistake in the name, or the machine is not registered yet. Only a Node that was there can have
		// been removed.
		w.log.Warn("no Node of the cluster has this name yet: check nodeName")
		return nil
	}
	w.learn(State{Known: true, UID: w.state.UID})
	return nil
}

func (w *Watcher) request() *rest.Request {
	return w.cfg.Client.Get().Resource("nodes").MaxRetries(0).
		Param("fieldSelector", fields.OneTermEqualSelector("metadata.name", w.cfg.Node).String())
}

func (w *Watcher) learn(s State) {
	if !s.Equal(w.state) {
		w.state = s
		w.cfg.OnState(s)
	}
}

// watch follows the Node from the known version until the watch ends. It returns nil if the server ended it normally.
func (w *Watcher) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := time.AfterFunc(openTimeout, cancel)
	defer limit.Stop()
	stream, err := w.request().Param("resourceVersion", w.version).Param("allowWatchBookmarks", "true").Param("watch", "true").Watch(ctx)
	if err != nil {
		return w.outdated(err)
	}
	defer stream.Stop()
	w.reached(true)
	for {
		limit.Reset(quiet)
		select {
		case <-ctx.Done():
			return errors.New("nothing arrives on the watch any more")
		case e, open := <-stream.ResultChan():
			if !open {
				return nil
			}
			if err := w.take(e); err != nil {
				return w.outdated(err)
			}
		}
	}
}

// outdated drops a version that the server has forgotten.
func (w *Watcher) outdated(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		w.version = ""
	}
	return err
}

func (w *Watcher) take(e watch.Event) error {
	if e.Type == watch.Error {
		return apierrors.FromObject(e.Object)
	}
	n, ok := e.Object.(*client.Node)
	if !ok {
		return fmt.Errorf("the watch sent an object of the type %T", e.Object)
	}
	w.version = n.ResourceVersion
	switch e.Type {
	case watch.Added, watch.Modified:
		if n.Name == w.cfg.Node {
			w.learn(StateOf(n))
		}
	case watch.Deleted:
		if n.Name == w.cfg.Node {
			w.learn(State{Known: true, UID: string(n.UID)})
		}
	}
	return nil
}
