package marks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/ownnode"
)

// The labels that show on a Node what its agent does, with the names that Deckhouse uses.
const (
	LabelEnabled = "node-manager.deckhouse.io/fencing-enabled" // present while the watchdog is armed
	LabelMode    = "node-manager.deckhouse.io/fencing-mode"    // ModeWatchdog or ModeNotify
	ModeWatchdog = "Watchdog"
	ModeNotify   = "Notify" // the agent decides and reports, and never arms
)

const (
	writeTimeout = 5 * time.Second
	firstPause   = time.Second
	longestPause = 2 * time.Minute
)

// Wish lists the labels or annotations that the Node should have, by key. Nil: there should be none with this key.
type Wish map[string]*string

// Config is what a [Writer] needs. Logger, which names the node, Registry and Rand may be nil.
type Config struct {
	Client   rest.Interface // of the core group
	Node     string
	Logger   *slog.Logger
	Registry prometheus.Registerer
	Rand     *rand.Rand // used by Run's goroutine only
}

// Writer writes to one Node.
type Writer struct {
	cfg     Config
	log     *slog.Logger
	dropped prometheus.Counter
	wake    boottime.Wake

	mu          sync.Mutex // guards the fields below
	labels      Wish
	annotations Wish
	node        ownnode.State
	queue       []queued
	events      uint64 // how many were ever queued
}

// New returns a writer that has written nothing yet.
func New(c Config) (*Writer, error) {
	if c.Client == nil || c.Node == "" {
		return nil, errors.New("marks on this node's Node: client and name are mandatory")
	}
	w := &Writer{cfg: c, log: c.Logger, wake: boottime.NewWake(), labels: Wish{}, annotations: Wish{}}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	w.dropped = prometheus.NewCounter(prometheus.CounterOpts{Namespace: "fencing_agent", Name: "kube_events_dropped_total",
		Help: "Kubernetes Events that were not created because there were too many, or the API server was away for too long."})
	if c.Registry != nil {
		c.Registry.MustRegister(w.dropped)
	}
	return w, nil
}

// Want adds wishes to the earlier ones, and replaces those with the same keys.
func (w *Writer) Want(labels, annotations Wish) {
	w.mu.Lock()
	maps.Copy(w.labels, labels)
	maps.Copy(w.annotations, annotations)
	w.mu.Unlock()
	w.wake.Signal()
}

// Seen records the present state of the Node. Before the first call, and while there is no Node, no labels and
// annotations are written.
func (w *Writer) Seen(s ownnode.State) {
	w.mu.Lock()
	w.node = s
	w.mu.Unlock()
	w.wake.Signal()
}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	backoff := client.Backoff{First: firstPause, Most: longestPause, Rand: w.cfg.Rand}
	bucket := newBucket()
	timer := time.NewTimer(0)
	defer timer.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-timer.C:
		}
		marked := w.mark(ctx)
		pause, sent := w.send(ctx, bucket)
		err := errors.Join(marked, sent)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			backoff.Reset()
			failing = false
			if pause > 0 {
				timer.Reset(pause)
			}
			continue
		}
		pause = backoff.Next(err)
		if !failing {
			failing = true
			w.log.Warn("cannot write to this node's Node", "error", err, "retry", pause)
		}
		// New wishes wait meanwhile: the server is in trouble, or forbids the write.
		if boottime.Wait(ctx, pause); ctx.Err() != nil {
			return
		}
		timer.Reset(0)
	}
}

// mark writes the labels and annotations that differ from what is wanted.
func (w *Writer) mark(ctx context.Context) error {
	w.mu.Lock()
	node := w.node
	labels, annotations := differing(w.labels, node.Labels), differing(w.annotations, node.Annotations)
	w.mu.Unlock()
	if !node.Exists || len(labels)+len(annotations) == 0 {
		return nil
	}
	n, err := Patch(ctx, w.cfg.Client, w.cfg.Node, labels, annotations)
	if err != nil {
		return err
	}
	w.log.Debug("wrote to this node's Node", "labels", len(labels), "annotations", len(annotations))
	w.mu.Lock()
	defer w.mu.Unlock()
	// The watch shows the same a little later; until then nothing is written twice.
	w.node.Labels, w.node.Annotations = n.Labels, n.Annotations
	return nil
}

// differing lists the wishes that the Node does not fulfil.
func differing(want Wish, have map[string]string) Wish {
	out := Wish{}
	for k, v := range want {
		if is, there := have[k]; there != (v != nil) || there && is != *v {
			out[k] = v
		}
	}
	return out
}

// Patch sets and removes labels and annotations of a Node, and returns the changed Node.
func Patch(ctx context.Context, c rest.Interface, node string, labels, annotations Wish) (*client.Node, error) {
	var body struct {
		Metadata struct {
			Labels      Wish `json:"labels,omitempty"`
			Annotations Wish `json:"annotations,omitempty"`
		} `json:"metadata"`
	}
	body.Metadata.Labels, body.Metadata.Annotations = labels, annotations
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("patch node %s: %w", node, err)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	n := &client.Node{}
	err = c.Patch(types.MergePatchType).Resource("nodes").Name(node).MaxRetries(0).Body(text).Do(ctx).Into(n)
	if err != nil {
		return nil, fmt.Errorf("patch node %s: %w", node, err)
	}
	return n, nil
}
