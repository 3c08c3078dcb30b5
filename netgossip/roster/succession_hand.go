package roster

import (
	"errors"
	"fmt"
)

// Lists that are handed over
//
// If a part of the group has taken up a list, and the list was replaced before it came into force, no source has it any
// more. A node that was away meanwhile would never hold it, so it would not count those that do. So those nodes hand
// the list over.
//
// To know a list promises nothing, and a node may get to know any list at any time: so safety does not depend on where
// a text comes from. The author of the list could have shown the same list to this node, and the list takes the same
// steps: known, stored, taken up, in force. Three bounds keep one node that was given a wrong list from spreading it:
//
//   - Only what the sender has taken up is handed over. The sender stored that list when a majority of the list in
//     force knew it, from sources of their own (mayStore).
//   - A fresh node is handed nothing but what is earlier than its own list (succession_join.go): it has
//     forgotten what it promised, and takes only what its own source shows. Nor does it hand anything over.
//   - A list that leaves this node out, or has it at another address, is taken from this node's own source only: nobody
//     is removed, or made to fall silent, by what another node says. Such a list may come from a peer if it is in force
//     there and overtaken: this node knows a later one that names this node. Then this node was removed and is added
//     again, without having heard of either. It disarms, as for a removal by its own source, until the later list is
//     taken up.

// HandsOver returns the lists that may be given to a peer that lacks them.
func (s *Succession) HandsOver() []*Roster {
	if s.fresh {
		return nil
	}
	return s.chain
}

// holders are the contacts that have taken a list up and may hand it over.
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
	errHandedSelf  = errors.New("it leaves this node out, or has this node at another address: only this node's own source may say so")
)

// overtaken reports whether a list is in force for a contact, and earlier than one that names this node.
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

// Hand makes known a list that was handed over by one of Moves.Holders. Its text must have the
// digest that was announced.
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
