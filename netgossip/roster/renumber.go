package roster

// Renumbering leads from the indices of one roster to those of another: by the old index the new one, or -1 for a
// member that is not on the other.
type Renumbering []int

// Renumber compares two rosters by name.
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

// SetOf is the members of r as indices of the directory d. A member that is not on d is left out.
func (r *Roster) SetOf(d *Roster) Set {
	if r == d {
		return FullSet(r.Size())
	}
	return Renumber(r, d).Set(FullSet(r.Size()))
}
