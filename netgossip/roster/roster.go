package roster

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

// MaxNodes is the maximum size of a roster; views are bitmaps of this size.
const MaxNodes = 1024

// Member is one expected node: its name and its address on each SystemNetwork.
type Member struct {
	Name      string
	Addresses map[string]string // network name -> IP
}

// Roster is the list of expected members, sorted by name. It is immutable; the
// position of a member in it is the member's index in every [Set].
type Roster struct {
	Epoch   uint64 // raised by each change of the roster's source
	Digest  uint64 // of the sorted names and addresses: different lists have different digests
	Members []Member
	Self    int // index of this node; -1: the roster does not list it
}

// Ref identifies a roster: two nodes mean the same list if and only if both numbers are equal.
type Ref struct{ Epoch, Digest uint64 }

// IsZero reports whether r identifies no roster.
func (r Ref) IsZero() bool { return r == Ref{} }

// String returns the reference as logs and fencectl show it.
func (r Ref) String() string { return fmt.Sprintf("%d/%016x", r.Epoch, r.Digest) }

// Ref returns the reference of the roster.
func (r *Roster) Ref() Ref { return Ref{r.Epoch, r.Digest} }

// New returns a roster of the members, sorted by name; self must be one of them.
func New(epoch uint64, members []Member, self string) (*Roster, error) {
	r, err := Of(epoch, members, self)
	if err == nil && r.Self < 0 {
		return nil, fmt.Errorf("the list of members does not contain this node %q", self)
	}
	return r, err
}

// Of is New for a list that need not contain this node; Self is -1 then.
func Of(epoch uint64, members []Member, self string) (*Roster, error) {
	if len(members) == 0 {
		return nil, errors.New("the list of members is empty: name at least this node")
	}
	if len(members) > MaxNodes {
		return nil, fmt.Errorf("the list has %d members, but at most %d are allowed", len(members), MaxNodes)
	}
	ms := slices.Clone(members)
	slices.SortFunc(ms, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	h := fnv.New64a()
	for i, m := range ms {
		if i > 0 && ms[i-1].Name == m.Name {
			return nil, fmt.Errorf("the list of members has %q twice", m.Name)
		}
		fmt.Fprintf(h, "%d:%s,", len(m.Name), m.Name)
		for _, network := range slices.Sorted(maps.Keys(m.Addresses)) {
			fmt.Fprintf(h, "%d:%s=%d:%s,", len(network), network, len(m.Addresses[network]), m.Addresses[network])
		}
	}
	r := &Roster{Epoch: epoch, Digest: h.Sum64(), Members: ms}
	r.Self = -1
	if i, ok := r.Index(self); ok {
		r.Self = i
	}
	return r, nil
}

// Size returns N, the number of expected members.
func (r *Roster) Size() int { return len(r.Members) }

// Index finds a member by name.
func (r *Roster) Index(name string) (int, bool) {
	return slices.BinarySearchFunc(r.Members, name, func(m Member, n string) int { return strings.Compare(m.Name, n) })
}

// Name returns the name of the member with index i.
func (r *Roster) Name(i int) string { return r.Members[i].Name }

// Names lists the members of s in roster order.
func (r *Roster) Names(s Set) []string {
	out := make([]string, 0, s.Len())
	for i := range s.All() {
		if i < len(r.Members) {
			out = append(out, r.Members[i].Name)
		}
	}
	return out
}

// Quorum returns floor(N/2)+1, or the fixed size if one is configured.
func (r *Roster) Quorum(fixed int) int {
	if fixed > 0 {
		return fixed
	}
	return len(r.Members)/2 + 1
}
