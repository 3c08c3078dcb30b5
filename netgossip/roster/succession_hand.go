package roster

import (
	"errors"
	"fmt"
)

// Lists that are handed over
//
// A list may be replaced by its source after a part of the group has taken it up, but before it came into force. Then
// no source has it any more. A node that was away in that time would never hold the list, and so would not count the
// nodes that do. So those nodes hand the list over.
//
// Knowing a list is not a promise, and a node may learn of any list at any time: so safety does not depend on where a
// list comes from. Its source could have shown the same list to this node, and the list takes the same steps: known,
// stored, taken up, in force. Three rules prevent a node that was given a wrong list from spreading it:
//
//   - Only lists that the sender has taken up are handed over. The sender stored such a list when a majority of the
//     list in force knew it from their own sources (mayStore).
//   - A fresh node accepts only lists that are earlier than its own list (succession_join.go): it has forgotten its
//     promises, and takes newer lists only from its own source. It does not hand lists over.
//   - A list that leaves this node out, or has it at another address, is accepted only from this node's own source: so
//     no node can remove another one, or cut it off. There is one exception: such a list may come from a peer if it is
//     in force there, and this node knows a later list that names this node. Then this node was removed and added
//     again, without having heard of either change. It disarms, as for a removal by its own source, until the later
//     list is taken up.

// HandsOver returns the lists that may be handed over to a peer that lacks them.
func (s *Succession) HandsOver() []*Roster {
	if s.fresh {
		return nil
	}
	return s.chain
}

// holders returns the contacts that have taken a list up and may hand it over.
func (s *Succession) holders(p *Peers, ref Ref) (set Set) {
	if s.fresh && ref.Epoch >= s.chain[0].Epoch {
		return set
	}
	for i := range p.Contact.All() {
		if st := p.Stands(i); !st.Fresh && st.holds(ref) {
			set.Add(i)
		}
	}
	return set
}

var (
	errHandedFresh = errors.New("this node does not know which list is in force, and waits for its own source to show it")
	errHandedSelf  = errors.New("it leaves this node out, or has this node at another address: only this node's own source may do that")
)

// overtaken reports whether a list is in force for a contact, and this node knows a later list that names this node.
func (s *Succession) overtaken(r *Roster) bool {
	later := func(k *Roster) bool { return k != nil && k.Epoch > r.Epoch && k.Self >= 0 && s.Top().sameSelf(k) }
	if r.Ref() != s.past {
		return false
	}
	for _, k := range s.known {
		if later(k) {
			return true
		}
	}
	return later(s.offer)
}

// Hand adds a list that was handed over by one of Moves.Holders to the known ones. The list must have the announced
// digest.
func (s *Succession) Hand(r *Roster) error {
	var err error
	switch {
	case s.fresh && r.Epoch >= s.chain[0].Epoch:
		err = errHandedFresh
	case !s.fresh && (r.Self < 0 || !s.Top().sameSelf(r)) && !s.overtaken(r):
		err = errHandedSelf
	default:
		return s.Learn(r)
	}
	return fmt.Errorf("list of members of epoch %d: %w", r.Epoch, err)
}
