package marks

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

const (
	// slowestRetry is between two attempts to write an [Annotation]. It is shorter than [longestPause]: the API
	// server is often away when a node dies, and somebody waits for this.
	slowestRetry = 15 * time.Second
	// firstRefused and refusedPause are until a server that forbids the annotation is asked again, at first and in the
	// end. One that starts forbids everything for some seconds, until it has its policies.
	firstRefused, refusedPause = time.Second, 10 * time.Minute
)

// Annotation keeps one annotation of the Node, by patches with nothing else in them: a server whose policy does not
// know the annotation yet refuses that one, and not what a [Writer] writes.
type Annotation struct {
	node, key string
	client    rest.Interface
	log       *slog.Logger
	rand      *rand.Rand
	wake      chan struct{} // capacity 1

	mu     sync.Mutex // guards what follows
	wanted bool
	wishes int // different ones, one after the other
	value  *string
	within time.Duration
	state  ownnode.State
}

// NewAnnotation returns one of which nothing is known yet. Config.Registry is not used.
func NewAnnotation(c Config, key string) (*Annotation, error) {
	if c.Client == nil || c.Node == "" || key == "" {
		return nil, errors.New("annotation of this node's Node: client, name and key are mandatory")
	}
	a := &Annotation{node: c.Node, key: key, client: c.Client, log: c.Logger, rand: c.Rand, wake: make(chan struct{}, 1)}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	return a, nil
}

// Want says what the annotation is to be; nil: it is not to be there. It is written at a random moment within the
// time given, so that the agents of a group that all have the same to say do not say it at one moment.
func (a *Annotation) Want(value *string, within time.Duration) {
	a.mu.Lock()
	if !a.wanted || (value == nil) != (a.value == nil) || value != nil && *value != *a.value {
		a.wishes++
	}
	a.wanted, a.value, a.within = true, value, within
	a.mu.Unlock()
	a.signal()
}

// Seen says what the Node has. Before the first call, and while there is no Node, nothing is written.
func (a *Annotation) Seen(s ownnode.State) {
	a.mu.Lock()
	a.state = s
	a.mu.Unlock()
	a.signal()
}

func (a *Annotation) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// missing returns what is to be written, and within which time.
func (a *Annotation) missing() (w Wish, within time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.wanted || !a.state.Exists {
		return nil, 0
	}
	return differing(Wish{a.key: a.value}, a.state.Annotations), a.within
}

// Run writes until ctx ends.
func (a *Annotation) Run(ctx context.Context) {
	backoff := client.Backoff{First: firstPause, Most: slowestRetry, Rand: a.rand}
	refused := client.Backoff{First: firstRefused, Most: refusedPause, Rand: a.rand}
	var logged bool
	for ctx.Err() == nil {
		wish, within := a.missing()
		if len(wish) == 0 {
			select {
			case <-ctx.Done():
			case <-a.wake:
			}
			continue
		}
		if within > 0 && !a.spread(ctx, client.Jitter(a.rand, within)) {
			continue
		}
		tried := a.count()
		err := a.write(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			backoff.Reset()
			refused.Reset()
			logged = false
			continue
		}
		forbidden := apierrors.IsForbidden(err)
		var pause time.Duration
		if forbidden {
			pause = refused.Next(err)
		} else {
			pause = backoff.Next(err)
		}
		if !logged {
			logged = true
			a.log.Warn("an annotation of this node's Node cannot be written", "annotation", a.key, "error", err, "retry", pause,
				"hint", "if it is forbidden, the installed roles and policies are older than this agent: apply the manifests of its version")
		}
		if forbidden {
			a.waitForWish(ctx, pause, tried)
		} else {
			boottime.Wait(ctx, pause)
		}
	}
}

func (a *Annotation) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wishes
}

// waitForWish waits, but no longer than until there is another wish than the one that was refused: a withdrawal must
// not wait for minutes because a server was not ready for what came before.
func (a *Annotation) waitForWish(ctx context.Context, d time.Duration, tried int) {
	t := time.NewTimer(d)
	defer t.Stop()
	for a.count() == tried {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			return
		case <-a.wake:
		}
	}
}

// spread waits, and reports whether the moment has come to write. A wish that is in a hurry ends the wait.
func (a *Annotation) spread(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
			return true
		case <-a.wake:
			if wish, within := a.missing(); len(wish) == 0 || within == 0 {
				return false
			}
		}
	}
}

// write writes what is wanted now, which may be newer than what was waited for.
func (a *Annotation) write(ctx context.Context) error {
	wish, _ := a.missing()
	if len(wish) == 0 {
		return nil
	}
	n, err := Patch(ctx, a.client, a.node, nil, wish)
	if err != nil {
		return err
	}
	a.log.Debug("an annotation of this node's Node was written", "annotation", a.key)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Annotations = n.Annotations // the watch says the same, a little later
	return nil
}
