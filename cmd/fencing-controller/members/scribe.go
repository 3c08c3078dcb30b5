package members

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/memberbook"
)

const (
	gather       = time.Second // from the first change to the check, so that several changes are handled together
	lookAgain    = time.Minute // between two checks of all groups, with what this replica knows
	storeTimeout = 15 * time.Second
	retryStore   = 5 * time.Second
)

// ErrConflict means that a book was not written, because another writer was first.
var ErrConflict = errors.New("the book was written by another replica")

// Store is the API server. Its reads never come from a cache.
type Store interface {
	// Read returns a group's book and its version; nil: there is none.
	Read(ctx context.Context, group string) (b *memberbook.Book, version string, err error)
	// Nodes returns the names of the Nodes with the label of a group.
	Nodes(ctx context.Context, group string) ([]string, error)
	// Write replaces this version of the book; "": it creates a book. ErrConflict: the book has another version by now.
	Write(ctx context.Context, b *memberbook.Book, version string) error
}

// Scribe writes the books.
type Scribe struct {
	Hub    *Hub
	Store  Store
	Logger *slog.Logger
	Count  func(outcome string) // written, conflict, error; nil: no metric counts

	doubts map[string]*memberbook.Doubt
	began  time.Time
}

// Run writes until ctx ends.
func (s *Scribe) Run(ctx context.Context) {
	s.doubts, s.began = map[string]*memberbook.Doubt{}, time.Now()
	due := map[string]time.Time{}
	all := time.NewTicker(lookAgain)
	defer all.Stop()
	look := time.NewTicker(gather)
	defer look.Stop()
	for {
		everything := false
		select {
		case <-ctx.Done():
			return
		case <-s.Hub.changed:
			if boottime.Wait(ctx, gather); ctx.Err() != nil {
				return
			}
		case <-all.C:
			everything = true
		case <-look.C:
		}
		now := time.Now()
		for _, g := range s.Hub.groups(everything) {
			due[g] = now
		}
		for g, at := range due {
			if at.After(now) {
				continue
			}
			delete(due, g)
			if again := s.group(ctx, g); again > 0 {
				due[g] = time.Now().Add(again)
			}
		}
	}
}

// group checks one group. It begins with what this replica knows, which costs no request. It returns when to check
// again; 0: when something changes.
func (s *Scribe) group(ctx context.Context, group string) (again time.Duration) {
	d := s.doubts[group]
	if d == nil {
		d = new(memberbook.Doubt)
		s.doubts[group] = d
	}
	facts, book, synced := s.Hub.facts(group)
	if !synced {
		return 0
	}
	facts.Now, facts.Wall = time.Since(s.began), time.Now().Unix()
	guess := *d
	if o := memberbook.Step(book, facts, &guess); o.Write == nil && o.Again == 0 {
		*d = guess
		s.say(group, o.Problem)
		return 0
	}
	o, err := s.write(ctx, group, facts, d)
	switch {
	case errors.Is(err, ErrConflict):
		s.count("conflict")
		return gather + rand.N(gather)
	case err != nil:
		s.count("error")
		s.Logger.Warn("cannot look at the group's list of members", "group", group, "err", err, "retry", retryStore)
		return retryStore
	}
	s.say(group, o.Problem)
	return o.Again
}

// write makes the next book.
//
// Invariant: the book is read before the Nodes, and written under the version that was read. So a book is never
// replaced by an older one, however long a replica stalls in between.
func (s *Scribe) write(ctx context.Context, group string, facts memberbook.Facts, d *memberbook.Doubt) (memberbook.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	book, version, err := s.Store.Read(ctx, group)
	if err != nil {
		return memberbook.Outcome{}, err
	}
	if facts.Nodes, err = s.Store.Nodes(ctx, group); err != nil {
		return memberbook.Outcome{}, err
	}
	o := memberbook.Step(book, facts, d)
	if o.Write == nil {
		return o, nil
	}
	if err := s.Store.Write(ctx, o.Write, version); err != nil {
		return o, err
	}
	s.count("written")
	s.Logger.Info("wrote the member-list history of the group", "group", group, "epoch", o.Write.Epoch, "members", len(o.Write.Members), "reports", len(o.Write.Reports))
	return o, nil
}

func (s *Scribe) say(group, problem string) {
	if s.Hub.problem(group, problem) && problem != "" {
		s.Logger.Warn("the group gets no newer list of members", "group", group, "problem", problem)
	}
}

func (s *Scribe) count(outcome string) {
	if s.Count != nil {
		s.Count(outcome)
	}
}
