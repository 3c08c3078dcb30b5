package roster

// Renumbering translates the indices of one roster into those of another: it has, by old index, the new index, or -1
// for a member that is not on the other roster.
type Renumbering []int

// Renumber returns the Renumbering between two rosters; it matches members by name.
func Renumber(from, to *Roster) Renumbering {
	n := make(Renumbering, from.Size())
	for i := range n {
		n[i] = -1
		if k, ok := to.Index(from.Name(i)); ok {
			n[i] = k
		}
	}
	return n
}

// Set translates a set; a member that is not on the other roster is dropped.
func (n Renumbering) Set(s Set) Set {
	var out Set
	for i := range s.All() {
		if i < len(n) && n[i] >= 0 {
			out.Add(n[i])
		}
	}
	return out
}

// SetOf returns the members of r by their indices in the directory d. Members that are not on d are left out.
func (r *Roster) SetOf(d *Roster) Set {
	if r == d {
		return FullSet(r.Size())
	}
	return Renumber(r, d).Set(FullSet(r.Size()))
}
