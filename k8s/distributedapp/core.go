package distributedapp

import (
	"cmp"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/ownership"
)

// Settings of a replica. Rank is ownership.Rank if it is nil.
type Settings struct {
	Self   string
	Rank   func(work, self string, replicas []string) int
	Pause  time.Duration // a replica leaves an app to each one before it for so long
	Quiet  time.Duration // so long the list of replicas has to stand before all apps are looked at again
	Lag    time.Duration // an app whose status lags is looked at so often
	Resync time.Duration // and all apps so often
}

// Defaults of a replica of this name.
func Defaults(self string) Settings {
	return Settings{Self: self, Rank: ownership.Rank, Pause: 3 * time.Second, Quiet: time.Second, Lag: 30 * time.Second, Resync: 10 * time.Minute}
}

// Core is what one replica remembers.
type Core struct {
	set     Settings
	members []string
	changed time.Time // of members
	review  time.Time // when all apps are looked at because of it; zero: they were
	resync  time.Time
	apps    map[Key]*entry
	config  Config

	out        []Message
	reads      map[Key]bool
	readConfig bool
}

// entry is one app.
type entry struct {
	app   App
	due   time.Time // zero: it is not
	lag   time.Time // when it is looked at in any case
	tries int       // in a row that failed
}

// New returns a replica that knows nothing yet.
func New(s Settings) *Core {
	if s.Rank == nil {
		s.Rank = ownership.Rank
	}
	return &Core{set: s, apps: map[Key]*entry{}, reads: map[Key]bool{}}
}

// Config is the latest configuration that the replica has read.
func (c *Core) Config() Config { return c.config }

// Membership is whom the replica knows, and since when.
func (c *Core) Membership() (members []string, changed time.Time) { return c.members, c.changed }

// Members takes the list of replicas, this one included.
func (c *Core) Members(names []string, now time.Time) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if slices.Equal(names, c.members) {
		return
	}
	c.members, c.changed, c.review = names, now, now.Add(c.set.Quiet)
}

// delay is for how long this replica leaves the app to others.
func (c *Core) delay(k Key) time.Duration {
	return time.Duration(c.set.Rank(k.String(), c.set.Self, c.members)) * c.set.Pause
}

// want makes an app due. What is due sooner stays so.
func (c *Core) want(k Key, now time.Time) {
	e := c.apps[k]
	if at := now.Add(c.delay(k)); e != nil && (e.due.IsZero() || at.Before(e.due)) {
		e.due = at
	}
}

// Observe takes an app that the API server shows: by a watch, a list or a read.
func (c *Core) Observe(a App, now time.Time) {
	delete(c.reads, a.Key)
	e := c.apps[a.Key]
	if e == nil {
		e = &entry{}
		c.apps[a.Key] = e
	} else if e.app.UID == a.UID && e.app.Generation == a.Generation && e.app.DeletedAt.IsZero() == a.DeletedAt.IsZero() && e.app.Finalizer == a.Finalizer {
		e.app = a // D6
		return
	}
	e.app, e.lag, e.tries = a, now.Add(c.set.Lag), 0
	c.want(a.Key, now)
	kind := Reconcile
	if !a.DeletedAt.IsZero() {
		kind = Delete
	}
	c.tell(Message{Kind: kind, Namespace: a.Namespace, Name: a.Name}, now)
}

// Gone takes that an app is not there any more.
func (c *Core) Gone(k Key) {
	delete(c.apps, k)
	delete(c.reads, k)
}

// Forget takes that a read of an app that somebody spoke of has failed: the next message, or the watch, brings it again.
func (c *Core) Forget(k Key) { delete(c.reads, k) }

// Touch takes that something about the pods of an app has changed.
func (c *Core) Touch(k Key, now time.Time) { c.want(k, now) }

// ConfigRead takes the configuration as it was read from the API server.
func (c *Core) ConfigRead(of Config, now time.Time) {
	c.readConfig = false
	if of.Version <= c.config.Version {
		return
	}
	c.config = of
	for k := range c.apps {
		c.want(k, now)
	}
	c.tell(c.State(now), now)
}

// State is what a replica that joins, or is back, is told.
func (c *Core) State(now time.Time) Message {
	return Message{Kind: Configure, Origin: c.set.Self, Timestamp: now.UnixNano(), Config: c.config}
}

// NeedConfig takes that a look has found a newer configuration than this replica has read.
func (c *Core) NeedConfig() { c.readConfig = true }

// Owned is for how many apps this replica is the first, and how many it knows of.
func (c *Core) Owned() (owned, known int) {
	for k := range c.apps {
		if c.set.Rank(k.String(), c.set.Self, c.members) == 0 {
			owned++
		}
	}
	return owned, len(c.apps)
}

func (c *Core) tell(m Message, now time.Time) {
	m.Origin, m.Timestamp = c.set.Self, now.UnixNano()
	c.out = append(c.out, m)
}

// Receive takes a message (D5).
func (c *Core) Receive(m Message, now time.Time) {
	if m.Origin == c.set.Self {
		return
	}
	switch m.Kind {
	case Configure:
		// The digest is that of another content under the same version if somebody lies; what the API server has counts.
		if m.Config.Version > c.config.Version {
			c.readConfig = true
		}
	case Reconcile, Delete:
		k := Key{m.Namespace, m.Name}
		if e := c.apps[k]; e == nil {
			if len(c.reads) < mostReads {
				c.reads[k] = true
			}
		} else if m.Kind == Delete && e.app.DeletedAt.IsZero() || e.app.Status.Observed != e.app.Generation {
			c.want(k, now)
		}
	}
}

// mostReads bounds what strangers' messages make a replica read at one time.
const mostReads = 64

// Work is what a replica has to do now.
type Work struct {
	Due    []Key     // apps to be looked at
	Reads  []Key     // apps that somebody spoke of, and this replica does not know
	Config bool      // the configuration is to be read
	Tell   []Message // to all other replicas
	Next   time.Time // when to ask again; zero: after an event
}

// Due says what is to be done at now. What it returns counts as begun: [Core.Finished] is to follow for each app that was
// due, and for a read Observe or Gone.
func (c *Core) Due(now time.Time) Work {
	c.remind(now)
	w := Work{Tell: c.out, Config: c.readConfig}
	c.out = nil
	for k, e := range c.apps {
		switch {
		case e.due.IsZero():
		case !e.due.After(now):
			e.due = time.Time{}
			w.Due = append(w.Due, k)
		default:
			w.Next = sooner(w.Next, e.due)
		}
		w.Next = sooner(w.Next, e.lag)
	}
	for k := range c.reads {
		w.Reads = append(w.Reads, k)
	}
	for _, keys := range [][]Key{w.Due, w.Reads} {
		slices.SortFunc(keys, func(a, b Key) int { return cmp.Compare(a.String(), b.String()) })
	}
	w.Next = sooner(sooner(w.Next, c.review), c.resync)
	return w
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// remind makes due what no event makes due: the list of replicas has changed, the status of an app lags, time has passed.
func (c *Core) remind(now time.Time) {
	all := false
	if !c.review.IsZero() && !now.Before(c.review) {
		all, c.review = true, time.Time{}
	}
	if c.resync.IsZero() {
		c.resync = now.Add(c.set.Resync)
	} else if !now.Before(c.resync) {
		all, c.resync = true, now.Add(c.set.Resync)
	}
	for k, e := range c.apps {
		lags := !e.app.DeletedAt.IsZero() || e.app.Status.Observed != e.app.Generation || e.app.Status.Config.Version < c.config.Version
		if lags && !now.Before(e.lag) {
			e.lag = now.Add(c.set.Lag)
			c.want(k, now)
		}
		if !lags {
			e.lag = now.Add(c.set.Lag)
		}
		if all {
			c.want(k, now)
		}
	}
}

// Outcome is how a look at an app ended.
type Outcome int

// The outcomes.
const (
	Settled  Outcome = iota // nothing is to be done, or not before Until
	Wrote                   // a write was taken: look again
	Conflict                // a write was refused: somebody else was first
	Failed                  // the API server did not answer
)

// Finished takes how a look ended. Only for Settled, until matters: when the next look is due.
func (c *Core) Finished(k Key, o Outcome, until, now time.Time) {
	e := c.apps[k]
	if e == nil {
		return
	}
	at := until
	switch o {
	case Settled:
		e.tries = 0
	case Wrote:
		e.tries, at = 0, now
	case Conflict, Failed:
		at = now.Add(100 * time.Millisecond << min(e.tries, 6)) // up to 6.4 s
		e.tries++
	}
	if !at.IsZero() && (e.due.IsZero() || at.Before(e.due)) {
		e.due = at
	}
}
