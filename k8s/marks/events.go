package marks

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// queueLength is the number of Events that may wait while the API server is unreachable.
	queueLength = 20
	// eventAge is the age from which an Event is no longer sent.
	eventAge      = 30 * time.Minute
	eventBurst    = 10
	eventInterval = 20 * time.Second
	longestText   = 1000 // bytes; the server takes 1024
	longestName   = 200  // bytes of the node's name in that of an Event; the server takes 253 in all
)

// Reason is the reason of an Event, one word in CamelCase.
type Reason string

// The reasons of Events.
const (
	WatchdogArmed      Reason = "WatchdogArmed"
	WatchdogDisarmed   Reason = "WatchdogDisarmed"
	WatchdogStarvation Reason = "WatchdogStarvation" // the watchdog is armed and not fed
	QuorumLost         Reason = "QuorumLost"
	QuorumRegained     Reason = "QuorumRegained"
	TieBreakWon        Reason = "TieBreakWon"
	TieBreakLost       Reason = "TieBreakLost"
	DryRun             Reason = "DryRun" // watchdog.driver is none: reports about the watchdog only tell what would happen
)

// warns reports whether an Event is a Warning.
func (r Reason) warns() bool {
	return r == DryRun || r == WatchdogStarvation || r == QuorumLost || r == TieBreakLost
}

type queued struct {
	id     uint64 // among those of this writer
	reason Reason
	text   string
	at     time.Time
}

// Event queues an Event. If too many wait, the oldest is dropped.
func (w *Writer) Event(reason Reason, text string) {
	if len(text) > longestText {
		text = text[:longestText]
	}
	w.mu.Lock()
	w.events++
	w.queue = append(w.queue, queued{w.events, reason, text, time.Now()})
	if len(w.queue) > queueLength {
		w.queue = w.queue[1:]
		w.dropped.Inc()
	}
	w.mu.Unlock()
	w.wake.Signal()
}

// bucket lets eventBurst Events through at once, and then one in each eventInterval.
type bucket struct {
	tokens float64
	at     time.Time
}

func newBucket() *bucket { return &bucket{eventBurst, time.Now()} }

// take uses a token and returns zero, or returns how long until there is one.
func (b *bucket) take(now time.Time) time.Duration {
	b.tokens = min(eventBurst, b.tokens+now.Sub(b.at).Seconds()/eventInterval.Seconds())
	b.at = now
	if b.tokens >= 1 {
		b.tokens--
		return 0
	}
	return time.Duration((1-b.tokens)*float64(eventInterval)) + time.Millisecond
}

// next returns the oldest Event that is not too old.
func (w *Writer) next(now time.Time) (queued, types.UID, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 {
		if q := w.queue[0]; now.Sub(q.at) <= eventAge {
			return q, types.UID(w.node.UID), true
		}
		w.queue = w.queue[1:]
		w.dropped.Inc()
	}
	return queued{}, "", false
}

func (w *Writer) sent(q queued) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) > 0 && w.queue[0].id == q.id { // it was not dropped meanwhile
		w.queue = w.queue[1:]
	}
}

// send creates the Events that wait. pause is the time until the next may be created.
func (w *Writer) send(ctx context.Context, b *bucket) (pause time.Duration, err error) {
	for {
		now := time.Now()
		q, uid, ok := w.next(now)
		if !ok {
			return 0, nil
		}
		if pause := b.take(now); pause > 0 {
			return pause, nil
		}
		switch err := w.create(ctx, q, uid); {
		case err == nil, apierrors.IsAlreadyExists(err): // the first answer was lost
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsNotFound(err):
			// A retry would not help, and the labels must not wait for it.
			w.dropped.Inc()
			w.log.Debug("the API server refused an Event", "reason", string(q.reason), "error", err)
		default:
			return 0, err
		}
		w.sent(q)
	}
}

// event is the part of a v1 Event that this package writes. [client.Node] explains why the type of k8s.io/api/core/v1
// is not used.
type event struct {
	metav1.TypeMeta     `json:",inline"`
	metav1.ObjectMeta   `json:"metadata"`
	InvolvedObject      reference   `json:"involvedObject"`
	Reason              string      `json:"reason"`
	Message             string      `json:"message"`
	Type                string      `json:"type"`
	Count               int         `json:"count"`
	FirstTimestamp      metav1.Time `json:"firstTimestamp"`
	LastTimestamp       metav1.Time `json:"lastTimestamp"`
	Source              source      `json:"source"`
	ReportingController string      `json:"reportingComponent"`
	ReportingInstance   string      `json:"reportingInstance"`
}

type reference struct {
	Kind       string    `json:"kind"`
	APIVersion string    `json:"apiVersion"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid,omitempty"`
}

type source struct {
	Component string `json:"component"`
	Host      string `json:"host"`
}

// create creates an Event about the Node in the namespace of Events about objects without a namespace.
func (w *Writer) create(ctx context.Context, q queued, uid types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	kind := "Normal"
	if q.reason.warns() {
		kind = "Warning"
	}
	at := metav1.NewTime(q.at)
	name := w.cfg.Node[:min(len(w.cfg.Node), longestName)]
	text, err := json.Marshal(event{
		TypeMeta:       metav1.TypeMeta{Kind: "Event", APIVersion: "v1"},
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x.%x", strings.TrimRight(name, "-."), q.at.UnixNano(), q.id), Namespace: metav1.NamespaceDefault},
		InvolvedObject: reference{Kind: "Node", APIVersion: "v1", Name: w.cfg.Node, UID: uid},
		Reason:         string(q.reason), Message: q.text, Type: kind, Count: 1, FirstTimestamp: at, LastTimestamp: at,
		Source: source{Component: "fencing-agent", Host: w.cfg.Node}, ReportingController: "fencing-agent", ReportingInstance: w.cfg.Node,
	})
	if err != nil {
		return fmt.Errorf("create event %s: %w", q.reason, err)
	}
	err = w.cfg.Client.Post().Namespace(metav1.NamespaceDefault).Resource("events").MaxRetries(0).
		SetHeader("Content-Type", "application/json").Body(text).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("create event %s: %w", q.reason, err)
	}
	return nil
}
