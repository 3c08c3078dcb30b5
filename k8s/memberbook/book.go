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

// Patience is how long a list that removes members has to be shown before it counts.
const Patience = 30 * time.Second

// Addresses are the addresses of a node, by the name of the network.
type Addresses = map[string]string

// Book is the list of a group as the controller keeps it. It is a value: nothing in it is changed.
type Book struct {
	Group   string
	Epoch   uint64               // 0: there is no list yet
	Members []roster.Member      // sorted by name
	Reports map[string]Addresses // what the agents have reported, by node
	Former  []string             // who was removed, the latest last: they have to be told so
}

// mostFormer bounds Former.
const mostFormer = 256

// Doubt is what a replica remembers of a list that it does not believe at once.
type Doubt struct {
	digest string
	since  time.Duration
}

// Facts are what a replica knows when it looks at a book.
type Facts struct {
	Group   string
	Nodes   []string             // names of the Nodes of the group, read after the book
	Reports map[string]Addresses // told to this replica by the agents that follow it, by node
	Past    map[string]Addresses // reported by agents that followed this replica once: another replica may know better by now
	Floor   uint64               // the highest epoch that this replica has ever seen
	Have    []uint64             // what the members that follow this replica use
	Wall    int64                // seconds since 1970
	Now     time.Duration        // since whenever, of a clock that does not jump
}

// Outcome is what comes of a look.
type Outcome struct {
	Write   *Book         // nil: the book stays as it is
	Again   time.Duration // when to look again; 0: when something changes
	Problem string        // why there is no list, or none newer
}

// Step makes the next book. book is nil where there is none.
//
// Invariant: the epoch of a list that differs from the one before is higher than all that this book, this replica, or a book that was lost
// before this second, ever had. A list that differs under one epoch would split the group's agents into two opinions.
func Step(book *Book, f Facts, d *Doubt) Outcome {
	if book == nil {
		book = &Book{Group: f.Group}
	}
	f.Floor = max(f.Floor, mostHave(f.Have, max(len(book.Members), len(f.Nodes))))
	reports := merged(book, f)
	write := func(epoch uint64, members []roster.Member) *Book {
		return &Book{Group: f.Group, Epoch: epoch, Members: members, Reports: reports, Former: former(book, members)}
	}
	var keep *Book // with other reports, and the list as it is
	if !maps.EqualFunc(reports, book.Reports, maps.Equal) {
		keep = write(book.Epoch, book.Members)
	}
	members, missing := listed(f.Nodes, reports)
	if len(missing) > 0 && book.Epoch == 0 {
		return Outcome{Write: keep, Problem: "the first list has to be complete, and these nodes' agents have not told their addresses: " + nodelist.Few(missing)}
	}
	if len(members) == 0 {
		return Outcome{Write: keep, Problem: "no Node has the label of the group, or no agent of them has told its addresses"}
	}
	if err := consistent(members); err != nil {
		return Outcome{Write: keep, Problem: err.Error()}
	}
	problem := ""
	if len(missing) > 0 {
		problem = "left out, since their agents have not told their addresses: " + nodelist.Few(missing)
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

// mostEpoch is more than any epoch is, which are seconds since 1970: it is in the year 2242.
const mostEpoch = 1 << 33

// mostHave is the highest epoch that most of the members who follow have, if these are enough of the members to be believed; else 0.
//
// A group may use a list that no book has: it was numbered by its nodes, who followed no controller for a while, and their numbers are
// ahead of the clock. One agent that lies, or was lied to, raises nothing.
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

// next is the epoch after another one.
func next(previous uint64, wall int64) uint64 { return max(previous+1, uint64(max(1, wall))) }

// former are the nodes that were members and are members no more.
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

// merged are the reports that stay in effect: of Nodes of the group, and of members of which it is in doubt whether they have left.
//
// Invariant: an agent that no longer follows does not outweigh the book. It may have told another replica something else, and the two
// replicas would overwrite each other's lists without end.
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

// listed are the members that the Nodes make, and those that have reported no addresses.
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

// of says why a list is not believed, and when to look again.
func (d *Doubt) of(book *Book, members []roster.Member, now time.Duration) (again time.Duration, why string) {
	if book.Epoch == 0 {
		return 0, "" // there is nobody to be removed
	}
	s := nodelist.Judge(book.Members, members, nil)
	switch {
	case s == nil:
		return 0, ""
	case !s.Again:
		return 0, s.Text + ": take out half of the members at most, and the others when that list is in force"
	case d.digest != s.Digest:
		d.digest, d.since = s.Digest, now
	}
	if left := Patience - (now - d.since); left > 0 {
		return left, s.Text + ": it has to be shown for a while"
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
				return fmt.Errorf("%s and %s have the same address %s on network %s", other, m.Name, a, network)
			}
			owner[network+"="+a] = m.Name
			if b := first.Addresses[network]; strings.Contains(a, ":") != strings.Contains(b, ":") {
				return fmt.Errorf("on network %s %s has %s and %s has %s: a network has one family", network, first.Name, b, m.Name, a)
			}
		}
	}
	return nil
}

func names(a Addresses) string { return strings.Join(slices.Sorted(maps.Keys(a)), ", ") }
