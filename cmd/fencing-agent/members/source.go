package members

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// List is a list of members as its source gives it. It is a value: nothing in it changes after it was handed over.
type List struct {
	// Members lists all nodes of the group, in any order. If this node is missing, it was removed. Addresses have the
	// form that netip.Addr prints: members compare them as text.
	Members []roster.Member
	// Numbered means that the maker of the list raises Epoch with each change of it. Otherwise Epoch is 0, and the
	// nodes number lists themselves (roster.Succession.Sight).
	Numbered bool
	Epoch    uint64
	// Founded, with Numbered, means that no person vouches for the first list of the group: it is founded by all of its
	// members, as without numbers, and its number counts afterwards.
	Founded bool
	// Waiting, with Founded, means that the list passed while this node knew of no list in force: its number was not
	// checked, and does not count.
	Waiting bool
	// ReadAt is when reading began, on the agent's clock: a list that is not numbered is put
	// forward only if it was read after the one in force came into force. The read must not
	// be served from a cache: it shows the state at ReadAt or a later one.
	ReadAt boottime.Instant
}

func (l *List) roster(self string) (*roster.Roster, error) {
	return roster.Of(l.Epoch, l.Members, self)
}

// Source is the only place from which lists of members come. A list that it shows is a proposal, which comes into
// force when the group agrees on it (docs/adr/0009). The agent keeps lists in members.cacheFile, and a new one can
// wait: if the source is away, no node loses its quorum.
type Source interface {
	// First returns the list to begin with. If lists are remembered it must return at once, with what it has or with
	// no members at all. Otherwise it blocks until it has a list that contains this node; its error ends the agent and
	// says what to do. First is called once, before everything else is started.
	First(ctx context.Context, remembered bool) (List, error)
	// Follow calls found with every list that it reads, changed or not, until ctx ends, from the agent's own goroutine
	// for it. found does not block. A value in again means that a peer has a list that this node lacks: the source
	// reads soon, after a pause of random length if very many nodes might ask at the same moment. That happens at most
	// every few seconds.
	Follow(ctx context.Context, again <-chan struct{}, found func(List))
}

// fileInterval is the time between two looks at the configuration for another list.
const fileInterval = 2 * time.Second

// fileSource is the list in the configuration file, which is numbered by its editor.
type fileSource struct {
	config *config.Config
	path   string // empty: the list does not change
	log    *slog.Logger
}

func (f *fileSource) First(context.Context, bool) (List, error) {
	return listed(&f.config.Members), nil
}

func listed(m *config.Members) List {
	return List{Members: m.List(), Numbered: true, Epoch: uint64(m.Epoch)}
}

// Follow implements Source: it reads the list again whenever the file has changed.
func (f *fileSource) Follow(ctx context.Context, _ <-chan struct{}, found func(List)) {
	if f.path == "" {
		return
	}
	var last []byte
	for {
		text, err := os.ReadFile(f.path)
		if err == nil && !bytes.Equal(text, last) {
			last = text
			m, err := config.LoadMembers(f.path, os.Getenv)
			if err != nil {
				f.log.Error("the changed configuration is not valid, so its list of members is not adopted", "error", err)
			} else {
				found(listed(m))
			}
		}
		if boottime.Wait(ctx, fileInterval); ctx.Err() != nil {
			return
		}
	}
}

var _ Source = (*fileSource)(nil)
