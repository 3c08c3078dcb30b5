package nodelist

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// Suspicion is the reason why a list that the API server shows is not believed yet.
type Suspicion struct {
	Text string
	// Again: the list is believed if it is still shown after a while. Otherwise an operator has to annotate a Node of
	// the group with [ConfirmAnnotation] and Digest.
	Again  bool
	Digest string
	Gone   []string // the members that would be removed
}

// Judge compares the list that the API server shows with the one that the node uses.
//
// The API server stores names, which people and controllers delete and label by the hundred. The list of members
// decides how many nodes are a majority. Therefore
//
//   - a list that only grows, or changes addresses, is believed;
//   - one that removes up to half of the members is believed if it is still shown at the
//     next look, some time later: by then a wrong label of a group has often been corrected;
//   - one that removes more than half of them needs a confirmation. Machines do not fail in that way, but a mistyped
//     selector removes them, and so does an API server that was restored from another cluster;
//   - an empty list is never believed, nor confirmed.
//
// Safety does not depend on this: a list that is believed only becomes valid under joint majorities. It keeps a slip of
// the hand from disarming a whole group.
func Judge(present, shown []roster.Member, confirmed []string) *Suspicion {
	if len(shown) == 0 {
		return &Suspicion{Text: "no Node has the label of the group any more"}
	}
	listed := func(list []roster.Member, name string) bool {
		return slices.ContainsFunc(list, func(m roster.Member) bool { return m.Name == name })
	}
	var gone []string
	for _, m := range present {
		if !listed(shown, m.Name) {
			gone = append(gone, m.Name)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	s := &Suspicion{Gone: gone, Digest: Digest(shown), Again: 2*len(gone) <= len(present)}
	if slices.Contains(confirmed, s.Digest) {
		return nil
	}
	s.Text = fmt.Sprintf("%d of %d members are to be removed (%s)", len(gone), len(present), Few(gone))
	return s
}

// Digest identifies a list in ConfirmAnnotation.
func Digest(members []roster.Member) string {
	r, err := roster.Of(0, members, "")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%016x", r.Digest)
}

// Few lists some of the names, if there are many.
func Few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
