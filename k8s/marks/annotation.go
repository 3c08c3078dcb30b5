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
	// slowestRetry is the longest pause between two attempts to write an [Annotation]. It is shorter than
	// [longestPause]: the API server is often unreachable when a node dies, and other programs wait for the annotation.
	slowestRetry = 15 * time.Second
	// firstRefused and refusedPause are the first and the longest pause before the next attempt, when a server forbids
	// the annotation. A server that starts forbids everything for some seconds, until it has loaded its policies.
	firstRefused, refusedPause = time.Second, 10 * time.Minute
)

// Annotation keeps one annotation of the Node, by patches that contain nothing else. A server whose policy does not
// know the annotation yet refuses only these patches, and not the patches of a [Writer].
type Annotation struct {
	node, key string
	client    rest.Interface
	log       *slog.Logger
	rand      *rand.Rand
	wake      chan struct{} // capacity 1

	mu     sync.Mutex // guards the fields below
	wanted bool
	wishes int // the number of different values given to [Annotation.Want]
	value  *string
	within time.Duration
	state  ownnode.State
}

// NewAnnotation returns an annotation whose value is not known yet. Config.Registry is not used.
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

// Want sets the value that the annotation should have; nil: there should be none. It is written at a random moment
// within the given time, so that the agents of a group, which all write the same, do not write at the same moment.
func (a *Annotation) Want(value *string, within time.Duration) { a.want(value, within, true) }

// Renew is like [Annotation.Want], for a text that is repeated with another number each time. While the server forbids
// the annotation, Renew does not make the next attempt earlier. Otherwise a server whose policy does not know the
// annotation would be asked for ever at the pace of the renewals. A withdrawal does not wait.
func (a *Annotation) Renew(value *string, within time.Duration) { a.want(value, within, false) }

func (a *Annotation) want(value *string, within time.Duration, hurry bool) {
	a.mu.Lock()
	if hurry && (!a.wanted || (value == nil) != (a.value == nil) || value != nil && *value != *a.value) {
		a.wishes++
	}
	a.wanted, a.value, a.within = true, value, within
	a.mu.Unlock()
	a.signal()
}

// Seen records the present state of the Node. Before the first call, and while there is no Node, nothing is written.
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

// missing returns the value to write, and the time within which to write it.
func (a *Annotation) missing() (w Wish, within time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.wanted || !a.state.Exists {
		return nil, 0
	}
	return differing(Wish{a.key: a.value}, a.state.Annotations), a.within
}

// refusal records what the server has forbidden, and until when the server is not asked again.
type refusal struct {
	until   time.Time
	wishes  int  // the number of wishes at that time
	removal bool // the refused wish was a removal
}

// Run writes until ctx ends.
func (a *Annotation) Run(ctx context.Context) {
	backoff := client.Backoff{First: firstPause, Most: slowestRetry, Rand: a.rand}
	refused := client.Backoff{First: firstRefused, Most: refusedPause, Rand: a.rand}
	var last refusal
	var failing, forbidden bool // as last logged
	for ctx.Err() == nil {
		wish, within := a.missing()
		if len(wish) == 0 {
			select {
			case <-ctx.Done():
			case <-a.wake:
			}
			continue
		}
		if pause := time.Until(last.until); pause > 0 && !a.hurries(last) {
			a.wait(ctx, pause)
			continue
		}
		if within > 0 && !a.spread(ctx, boottime.Jitter(a.rand, within)) {
			continue
		}
		tried := a.trying()
		err := a.write(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if forbidden {
				a.log.Info("writing an annotation of this node's Node is no longer forbidden", "annotation", a.key)
			}
			backoff.Reset()
			refused.Reset()
			last, failing, forbidden = refusal{}, false, false
		case apierrors.IsForbidden(err):
			pause := refused.Next(err)
			tried.until = time.Now().Add(pause)
			last = tried
			if !forbidden {
				forbidden = true
				a.log.Warn("cannot write an annotation of this node's Node: the API server forbids it", "annotation", a.key, "error", err, "retry", pause, "hint", a.hint())
			}
		default:
			pause := backoff.Next(err)
			if !failing {
				failing = true
				a.log.Warn("cannot write an annotation of this node's Node", "annotation", a.key, "error", err, "retry", pause)
			}
			boottime.Wait(ctx, pause)
		}
	}
}

// hint tells what to do about a server that forbids the annotation.
func (a *Annotation) hint() string {
	return "the ValidatingAdmissionPolicy own-node of the agents, whose full name the error has, does not allow " + a.key +
		" if it is older than this agent; or their ClusterRole does not allow the verb patch for nodes. Update both: apply the manifests of this agent's version"
}

// trying describes the present attempt as a refusal of it would.
func (a *Annotation) trying() refusal {
	a.mu.Lock()
	defer a.mu.Unlock()
	return refusal{wishes: a.wishes, removal: a.value == nil}
}

// hurries reports whether there is another wish than the one that was refused, or a withdrawal of that one. Neither may
// wait for minutes because a server was not ready for an earlier wish.
func (a *Annotation) hurries(last refusal) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wishes != last.wishes || a.value == nil && !last.removal
}

// wait waits for d, or until there is something to do.
func (a *Annotation) wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-a.wake:
	}
}

// spread waits, and reports whether the moment to write has come. An urgent wish ends the wait.
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

// write writes the present wish, which may be newer than the one for which it waited.
func (a *Annotation) write(ctx context.Context) error {
	wish, _ := a.missing()
	if len(wish) == 0 {
		return nil
	}
	n, err := Patch(ctx, a.client, a.node, nil, wish)
	if err != nil {
		return err
	}
	a.log.Debug("wrote an annotation of this node's Node", "annotation", a.key)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Annotations = n.Annotations // the watch shows the same, a little later
	return nil
}
