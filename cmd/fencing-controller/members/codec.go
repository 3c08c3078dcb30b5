package members

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fencing-agent/fencing-agent/k8s/memberbook"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

const (
	// BookLabel is on the ConfigMaps that are books; its value is "true".
	BookLabel   = "fencing-agent.io/members"
	bookKey     = "book.json"
	bookVersion = 1
	bookPrefix  = "fencing-members-"
	// latest is greater than any epoch. Epochs are seconds since 1970, and this is in the year 2242. Without this bound,
	// one mistake in an edited book would make every replica number its lists so high that no agent accepts them.
	latest = 1 << 33
)

// BookName returns the name of a group's ConfigMap. Names of groups may have characters that names of objects must not
// have.
func BookName(group string) string {
	name := strings.Map(func(r rune) rune {
		if r == '_' {
			return '-'
		}
		return r
	}, strings.ToLower(group))
	if name != group {
		sum := sha256.Sum256([]byte(group))
		name += "-" + hex.EncodeToString(sum[:4])
	}
	return bookPrefix + name
}

type bookOnFile struct {
	Version int                             `json:"version"`
	Group   string                          `json:"group"`
	Epoch   uint64                          `json:"epoch"`
	Members []roster.Member                 `json:"members"`
	Reports map[string]memberbook.Addresses `json:"reports"`
	Former  []string                        `json:"former,omitempty"`
}

// encode writes a book in a form that people can read, too.
func encode(b *memberbook.Book) (string, error) {
	text, err := json.MarshalIndent(bookOnFile{bookVersion, b.Group, b.Epoch, b.Members, b.Reports, b.Former}, "", " ")
	return string(text), err
}

// decode reads the book of a group. A ConfigMap that is not a valid book is an error and is not overwritten, since
// its epoch would be lost.
func decode(group, text string) (*memberbook.Book, error) {
	b, err := decodeAny(text)
	if err == nil && b.Group != group {
		err = fmt.Errorf("it is the book of group %q", b.Group)
	}
	if err != nil {
		return nil, fmt.Errorf("book of group %s: %w", group, err)
	}
	return b, nil
}

func decodeAny(text string) (*memberbook.Book, error) {
	var f bookOnFile
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	switch err := d.Decode(&f); {
	case err != nil:
		return nil, err
	case f.Version != bookVersion:
		return nil, fmt.Errorf("format %d, but this version only reads format %d", f.Version, bookVersion)
	case f.Epoch > latest:
		return nil, fmt.Errorf("no list has epoch %d: write the epoch that the agents have, or a slightly greater one", f.Epoch)
	case (f.Epoch == 0) != (len(f.Members) == 0):
		return nil, fmt.Errorf("epoch %d with %d members", f.Epoch, len(f.Members))
	}
	slices.SortFunc(f.Members, func(a, b roster.Member) int { return cmp.Compare(a.Name, b.Name) })
	if len(f.Members) > 0 {
		if _, err := roster.Of(f.Epoch, f.Members, ""); err != nil {
			return nil, err
		}
	}
	for node, a := range f.Reports {
		for _, text := range a {
			if !memberbook.Address(text) {
				return nil, fmt.Errorf("%s has the address %.60q", node, text)
			}
		}
	}
	return &memberbook.Book{Group: f.Group, Epoch: f.Epoch, Members: f.Members, Reports: f.Reports, Former: f.Former}, nil
}

var errNoBook = errors.New("no book")
