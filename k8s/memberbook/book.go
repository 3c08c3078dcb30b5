package memberbook

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/k8s/nodelist"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Patience is the time for which a list that removes members has to be shown before it counts.
const Patience = 30 * time.Second

// Addresses are the addresses of a node, by the name of the network.
type Addresses = map[string]string

// Book is the list of a group as the controller keeps it. It is a value and is never changed.
type Book struct {
	Group   string
	Epoch   uint64               // 0: there is no list yet
	Members []roster.Member      // sorted by name
	Reports map[string]Addresses // what the agents have reported, by node
	Former  []string             // the removed members, the latest last: they have to be told
}

// mostFormer bounds Former.
const mostFormer = 256

// Doubt is what a replica remembers about a list that it does not believe yet.
type Doubt struct {
	digest string
	since  time.Duration
}

// Facts are what a replica knows when it looks at a book.
type Facts struct {
	Group   string
	Nodes   []string             // names of the Nodes of the group, read after the book
	Reports map[string]Addresses // reports to this replica by the agents that follow it, by node
	Past    map[string]Addresses // reports by agents that followed this replica before: another replica may have newer ones
	Floor   uint64               // the highest epoch that this replica has ever seen
	Have    []uint64             // the epochs that the members which follow this replica use
	Wall    int64                // seconds since 1970
	Now     time.Duration        // of a clock that does not jump, from any start
}

// Outcome is the result of a look.
type Outcome struct {
	Write   *Book         // nil: the book stays as it is
	Again   time.Duration // when to look again; 0: when something changes
	Problem string        // why there is no list, or none newer
}

// Step creates the next book. book is nil if there is none.
//
// Invariant: a list that differs from the one before gets a higher epoch. It is higher than all epochs of this book, of
// this replica, and of any book that was lost before this second. Two different lists with one epoch would split the
// group's agents.
func Step(book *Book, f Facts, d *Doubt) Outcome {
	if book == nil {
		book = &Book{Group: f.Group}
	}
	f.Floor = max(f.Floor, mostHave(f.Have, max(len(book.Members), len(f.Nodes))))
	reports := merged(book, f)
	write := func(epoch uint64, members []roster.Member) *Book {
		return &Book{Group: f.Group, Epoch: epoch, Members: members, Reports: reports, Former: former(book, members)}
	}
	var keep *Book // the list as it is, with other reports
	if !maps.EqualFunc(reports, book.Reports, maps.Equal) {
		keep = write(book.Epoch, book.Members)
	}
	members, missing := listed(f.Nodes, reports)
	if len(missing) > 0 && book.Epoch == 0 {
		return Outcome{Write: keep, Problem: "the first list has to be complete, but the agents of these nodes have not reported their addresses: " + nodelist.Few(missing)}
	}
	if len(members) == 0 {
		return Outcome{Write: keep, Problem: "no Node has the label of the group, or none of their agents has reported its addresses"}
	}
	if err := consistent(members); err != nil {
		return Outcome{Write: keep, Problem: err.Error()}
	}
	problem := ""
	if len(missing) > 0 {
		problem = "nodes are left out, since their agents have not reported their addresses: " + nodelist.Few(missing)
	}
	same := slices.EqualFunc(members, book.Members, func(a, b roster.Member) bool {
		return a.Name == b.Name && maps.Equal(a.Addresses, b.Addresses)
	})
	if same && book.Epoch >= f.Floor {
		*d = Doubt{}
		return Outcome{Write: keep, Problem: problem}
	}
	if !same {
		wait, why := d.of(book, members, f.Now)
		if why != "" {
			return Outcome{Write: keep, Again: wait, Problem: why}
		}
	}
	*d = Doubt{}
	return Outcome{Write: write(next(max(book.Epoch, f.Floor), f.Wall), members), Problem: problem}
}

// mostEpoch is higher than any valid epoch. Epochs are seconds since 1970, and this one is in the year 2242.
const mostEpoch = 1 << 33

// mostHave returns the highest epoch that most of the following members use, if these are enough members to be
// believed; else 0.
//
// A group may use a list that is in no book: its nodes followed no controller for a while and numbered the list
// themselves, and these numbers are ahead of the clock. A single agent that lies, or was lied to, raises nothing.
func mostHave(have []uint64, members int) uint64 {
	if n := len(have); n == 0 || n < 2 && 2*n < members {
		return 0
	}
	sorted := slices.Sorted(slices.Values(have))
	if most := sorted[(len(sorted)-1)/2]; most < mostEpoch {
		return most
	}
	return 0
}

// next returns the epoch that follows another one.
func next(previous uint64, wall int64) uint64 { return max(previous+1, uint64(max(1, wall))) }

// former lists the nodes that were members before and are not any more.
func former(book *Book, members []roster.Member) []string {
	is := func(list []roster.Member, name string) bool {
		return slices.ContainsFunc(list, func(m roster.Member) bool { return m.Name == name })
	}
	out := slices.DeleteFunc(slices.Clone(book.Former), func(n string) bool { return is(members, n) || is(book.Members, n) })
	for _, m := range book.Members {
		if !is(members, m.Name) {
			out = append(out, m.Name)
		}
	}
	return out[max(0, len(out)-mostFormer):]
}

// merged lists the reports that stay in effect: those of Nodes of the group, and of members that may have left.
//
// Invariant: the report of an agent that no longer follows does not outweigh the book. It may have reported something
// else to another replica, and the two replicas would overwrite each other's lists without end.
func merged(book *Book, f Facts) map[string]Addresses {
	out := map[string]Addresses{}
	keep := func(node string) bool {
		_, member := slices.BinarySearchFunc(book.Members, node, func(m roster.Member, n string) int { return cmp.Compare(m.Name, n) })
		return member || slices.Contains(f.Nodes, node)
	}
	for _, from := range []map[string]Addresses{f.Past, book.Reports, f.Reports} {
		for node, a := range from {
			if keep(node) {
				out[node] = a
			}
		}
	}
	return out
}

// listed returns the members that the Nodes make up, and the Nodes without reported addresses.
func listed(nodes []string, reports map[string]Addresses) (members []roster.Member, missing []string) {
	for _, n := range slices.Sorted(slices.Values(nodes)) {
		if a := reports[n]; len(a) > 0 {
			members = append(members, roster.Member{Name: n, Addresses: a})
		} else {
			missing = append(missing, n)
		}
	}
	return members, missing
}

// of returns why a list is not believed, and when to look again.
func (d *Doubt) of(book *Book, members []roster.Member, now time.Duration) (again time.Duration, why string) {
	if book.Epoch == 0 {
		return 0, "" // there is no list from which a member could be removed
	}
	s := nodelist.Judge(book.Members, members, nil)
	switch {
	case s == nil:
		return 0, ""
	case !s.Again:
		return 0, s.Text + ": remove at most half of the members, and the others when that list is in force"
	case d.digest != s.Digest:
		d.digest, d.since = s.Digest, now
	}
	if left := Patience - (now - d.since); left > 0 {
		return left, s.Text + ": the list has to be shown for a while"
	}
	return 0, ""
}

// consistent refuses a list whose members are not on the same networks, share an address, or have two families on a network.
func consistent(members []roster.Member) error {
	owner := map[string]string{}
	for i, m := range members {
		first := members[0]
		if i > 0 && !slices.Equal(slices.Sorted(maps.Keys(first.Addresses)), slices.Sorted(maps.Keys(m.Addresses))) {
			return fmt.Errorf("%s is on the networks %s, and %s on %s: give all agents of the group the same systemNetworks",
				first.Name, names(first.Addresses), m.Name, names(m.Addresses))
		}
		for _, network := range slices.Sorted(maps.Keys(m.Addresses)) {
			a := m.Addresses[network]
			if other, twice := owner[network+"="+a]; twice {
				return fmt.Errorf("%s and %s have the same address %s on network %s: each node needs its own", other, m.Name, a, network)
			}
			owner[network+"="+a] = m.Name
			if b := first.Addresses[network]; strings.Contains(a, ":") != strings.Contains(b, ":") {
				return fmt.Errorf("on network %s %s has %s and %s has %s: all addresses of a network must have one family", network, first.Name, b, m.Name, a)
			}
		}
	}
	return nil
}

func names(a Addresses) string { return strings.Join(slices.Sorted(maps.Keys(a)), ", ") }
