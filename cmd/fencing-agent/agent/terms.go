package agent

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/fencing-agent/fencing-agent/api/trouble"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	termsPatience = time.Minute     // a group may take this long to agree before this node logs for what it waits
	termsRetry    = 5 * time.Second // between two attempts to store terms
	repeatAfter   = time.Minute     // between two lines about the same trouble
)

// termsWork is the agent's work on the settings by which it breaks ties. The loop owns it. Changed settings are stored
// in the file before the core uses them (lease.md T3).
type termsWork struct {
	file       *termsFile
	by         netgossip.Breakers
	onFile     knownTerms      // as last stored
	want       knownTerms      // to be stored
	saves      chan knownTerms // capacity 1: at most one is under way
	saving     bool
	complained boottime.Instant

	heardSet  roster.Set // whose names are heardList, by
	heardBy   *roster.Roster
	heardList []string

	since boottime.Instant // the node has not agreed since then; zero: it agrees
}

// termsSaved is the outcome of a write of the file.
type termsSaved struct {
	known knownTerms
	err   error
}

// beginTerms continues with the settings in the file, if they fit the configuration, and refuses to start if settings
// cannot be stored. It runs after the tie-breaker was created.
func (a *Agent) beginTerms() error {
	w := &a.terms
	w.file, w.by, w.saves = newTermsFile(a.cfg), a.cfg.Terms(), make(chan knownTerms, 1)
	var err error
	w.onFile, err = w.file.load()
	if errors.Is(err, errLostTerms) {
		a.log.Warn("starting without the tie-break settings of the last run: this node takes no part in an equal split until a majority confirms its settings", "file", w.file.path, "error", err)
		err = nil
	}
	if err != nil {
		return err
	}
	w.want = w.onFile
	own := netgossip.Terms{By: w.by}
	switch log := a.core.Breaker().Name().Log; {
	case log != 0:
		own.Log = log
	case w.by&netgossip.BreaksByLUN != 0 && w.onFile.terms.By == w.by:
		own.Log = w.onFile.terms.Log // until the LUN is open
	}
	if own != w.onFile.terms {
		w.want = knownTerms{terms: own, storage: w.onFile.storage}
	}
	if w.by&netgossip.BreaksByLUN != 0 && own.Log == 0 {
		w.want.terms.By |= netgossip.Unsettled
	}
	// What is already on file needs no room: the agent starts even on a full disk.
	if !w.want.equal(&w.onFile) || statefile.Sync(w.file.path) != nil {
		if err := w.file.save(w.want); err != nil {
			return err
		}
	}
	w.onFile = w.want
	a.goByTerms()
	return nil
}

// goByTerms passes the settings in the file to the core.
func (a *Agent) goByTerms() {
	k := &a.terms.onFile
	a.core.SetTerms(a.clock(), k.terms, a.setOf(k.heard))
}

func (a *Agent) setOf(names []string) (s roster.Set) {
	for _, name := range names {
		if i, ok := a.roster.Index(name); ok {
			s.Add(i)
		}
	}
	return s
}

// runTerms stores terms until ctx ends.
func (a *Agent) runTerms(ctx context.Context) {
	told := a.published.unsaved.teller("terms")
	for {
		select {
		case <-ctx.Done():
			return
		case k := <-a.terms.saves:
			err := a.terms.file.save(k)
			told(err)
			if err != nil {
				a.log.Error("the tie-break settings cannot be stored; equal splits are lost until they can", "error", err, "retry", termsRetry)
				boottime.Wait(ctx, termsRetry)
			}
			a.box.put(func(b *batch) { b.termsSaved = append(b.termsSaved, termsSaved{k, err}) })
		}
	}
}

// lunNamed handles the identity of a LUN device that was opened. log is the LUN's, storage is the storage's name for
// the device, "" if it has none.
func (a *Agent) lunNamed(log uint64, sb *diskquorum.Superblock, storage string) {
	w := &a.terms
	id := hex.EncodeToString(sb.ID[:])
	next := knownTerms{terms: netgossip.Terms{By: w.by, Log: log}, heard: w.want.heard, storage: map[string]string{}}
	if w.by&netgossip.BreaksByLUN == 0 {
		return
	}
	known := w.want.storage[id]
	if w.want.terms == next.terms {
		maps.Copy(next.storage, w.want.storage)
	}
	if storage != "" {
		next.storage[id] = storage
	}
	moved := known != "" && storage != "" && known != storage
	if moved {
		a.log.Warn("the LUN is on a different storage device than before: other members must confirm the tie-break settings again", "id", id, "before", known, "now", storage)
	}
	if next.terms != w.want.terms || moved {
		next.heard = nil
		a.core.SetTerms(a.clock(), netgossip.Terms{By: w.by | netgossip.Unsettled, Log: log}, roster.Set{})
	}
	w.want = next
}

// followTerms stores what has to be remembered, and uses it once it is stored.
func (a *Agent) followTerms(now boottime.Instant, saved []termsSaved) {
	w := &a.terms
	for _, s := range saved {
		w.saving = false
		if s.err != nil {
			continue
		}
		w.onFile = s.known
		// An earlier write may have confirmations that no longer count.
		if w.onFile.equal(&w.want) && a.core.Terms() != w.want.terms {
			a.goByTerms()
			a.log.Info("ties are broken by these settings", "terms", w.want.terms.String())
		}
	}
	if a.core.Terms() == w.want.terms {
		if heard := a.heardNames(); !slices.Equal(heard, w.want.heard) {
			w.want.heard = heard
		}
	}
	if !w.saving && !w.want.equal(&w.onFile) {
		w.saving = true
		w.saves <- w.want // has room: the previous write has ended
	}
	a.complainOfTerms(now)
}

// heardNames are the members that have confirmed this node's terms, sorted.
func (a *Agent) heardNames() []string {
	heard, _ := a.core.TermsHeard()
	if heard == a.terms.heardSet && a.terms.heardBy == a.roster {
		return a.terms.heardList
	}
	names := a.roster.Names(heard)
	slices.Sort(names)
	a.terms.heardSet, a.terms.heardBy, a.terms.heardList = heard, a.roster, names
	return names
}

// complainOfTerms logs which nodes use other settings, and why a tie would be lost.
func (a *Agent) complainOfTerms(now boottime.Instant) {
	w := &a.terms
	_, others := a.core.TermsHeard()
	switch {
	case a.core.Agreed():
		w.since = 0
	case w.since == 0:
		w.since = now
	}
	if w.complained > 0 && now.Sub(w.complained) < repeatAfter {
		return
	}
	switch {
	case !others.IsEmpty():
		var theirs []string
		for p := range others.All() {
			if st, _ := a.core.Merger().Statement(p); st != nil {
				theirs = append(theirs, a.roster.Name(p)+": "+st.Terms.String())
			}
		}
		w.complained = now
		trouble.TiesDiffer.Log(a.log, "this_node", a.core.Terms().String(), "others", theirs)
	case w.since > 0 && now.Sub(w.since) >= termsPatience:
		w.complained = now
		trouble.TiesUnconfirmed.Log(a.log, "settings", a.core.Terms().String(), "waiting_for", a.roster.Names(a.unheard()))
	}
}

// unheard are the members whose confirmation is missing.
func (a *Agent) unheard() roster.Set {
	heard, _ := a.core.TermsHeard()
	heard.Add(a.roster.Self)
	return a.core.Rosters().Expected().Minus(heard)
}
