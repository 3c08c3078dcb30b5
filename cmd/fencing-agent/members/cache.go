package members

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// cache is members.cacheFile: what the agent must remember of its lists of members over
// a restart. Forgetting a list that was in use would let two parts of the group live.
type cache struct {
	path                 string
	lock                 string // beside it; every agent leaves it
	terms                string // the terms file next to it, which also has to be removed if the node moves to another group
	cluster, group, node string
}

const cacheVersion = 1

// cacheFile is the file's content.
type cacheFile struct {
	Version int          `json:"version"`
	Cluster string       `json:"cluster"`
	Group   string       `json:"nodeGroup"`
	Node    string       `json:"node"`
	Fresh   bool         `json:"fresh,omitempty"` // no list is known to be in force
	Chain   []listOnFile `json:"chain"`           // the list in force, then the adopted ones
	Offer   *listOnFile  `json:"offer,omitempty"` // ready to be adopted
}

type listOnFile struct {
	Epoch   uint64          `json:"epoch"`
	Digest  string          `json:"digest"` // proves that the rest is what was written
	Members []roster.Member `json:"members"`
}

func newCache(c *config.Config) *cache {
	return &cache{path: c.Members.CacheFile, lock: c.LockFile(), terms: c.TermsFile(), cluster: c.Cluster, group: c.NodeGroup, node: c.NodeName}
}

const forgetHint = "if no other agent of the group runs, or all have the present list in force, remove the file and start again"

// load returns what was saved, or nil if nothing was.
func (c *cache) load() (*roster.Saved, error) {
	text, err := statefile.Read(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("members.cacheFile: %w; correct the path, or %s", err, forgetHint)
	}
	saved, err := c.decode(text)
	var other *errOtherGroup
	switch {
	case errors.As(err, &other): // forgetHint is about a list of this group
		return nil, fmt.Errorf("members.cacheFile %s: %w", c.path, err)
	case err != nil:
		return nil, fmt.Errorf("members.cacheFile %s: %w; %s", c.path, err, forgetHint)
	}
	if !saved.Fresh {
		err = c.settle()
	}
	return saved, err
}

// firstStart is the content of the lock file from the first start of this node's agent until another node hears of the
// agent or a list is in force. So an agent that was killed meanwhile, or refused its LUN, does not count as one that
// has forgotten its list.
const firstStart = "first start: no list is in force yet\n"

// past reports whether an agent has run here before, by the lock file, which every agent leaves next to its lists.
func (c *cache) past() (before, first bool) {
	text, err := statefile.Read(c.lock)
	first = string(text) == firstStart
	return !first && !errors.Is(err, fs.ErrNotExist), first
}

// settle ends the first start. It runs before the node uses a list in force, since the node then has something to
// forget.
func (c *cache) settle() error {
	if _, first := c.past(); !first {
		return nil
	}
	return statefile.Empty(c.lock)
}

// errOtherGroup means that the file is this node's, from its time in another group. The agent does not assume that the
// node was moved. nodeGroup may only be mistyped; then the node would forget the lists of its old group, without which
// it has no quorum there.
type errOtherGroup struct{ node, was, is, terms string }

func (e *errOtherGroup) Error() string {
	return fmt.Sprintf("the file belongs to node %q in group %q, and nodeGroup is %q: if this node was moved, and the list in force of %s no longer has it, remove this file and %s and start again; otherwise correct nodeGroup, or the node's label", e.node, e.was, e.is, e.was, e.terms)
}

func (c *cache) decode(text []byte) (*roster.Saved, error) {
	var f cacheFile
	var later struct{ Version int } // the other fields are ignored
	if json.Unmarshal(text, &later) == nil && later.Version > cacheVersion {
		return nil, fmt.Errorf("format %d, but this version only reads format %d: start the version that has written it", later.Version, cacheVersion)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	switch err := d.Decode(&f); {
	case err != nil:
		return nil, fmt.Errorf("damaged: %w", err)
	case f.Version != cacheVersion:
		return nil, fmt.Errorf("damaged: format %d", f.Version)
	case f.Cluster == c.cluster && f.Node == c.node && f.Group != c.group:
		return nil, &errOtherGroup{f.Node, f.Group, c.group, c.terms}
	case f.Cluster != c.cluster || f.Group != c.group || f.Node != c.node:
		return nil, fmt.Errorf("the file belongs to node %q, group %q, cluster %q: give each agent its own file", f.Node, f.Group, f.Cluster)
	case len(f.Chain) == 0 || len(f.Chain) > roster.MaxChain:
		return nil, fmt.Errorf("damaged: %d lists", len(f.Chain))
	}
	saved := &roster.Saved{Fresh: f.Fresh}
	for i := range f.Chain {
		r, err := f.Chain[i].roster(c.node)
		if err != nil {
			return nil, err
		}
		saved.Chain = append(saved.Chain, r)
	}
	if f.Offer != nil {
		r, err := f.Offer.roster(c.node)
		if err != nil {
			return nil, err
		}
		saved.Offer = r
	}
	return saved, nil
}

func (o *listOnFile) roster(self string) (*roster.Roster, error) {
	r, err := roster.Of(o.Epoch, o.Members, self)
	if err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	if hex64(r.Digest) != o.Digest {
		return nil, fmt.Errorf("damaged: the list of epoch %d does not match the digest that was written with it", o.Epoch)
	}
	return r, nil
}

func onFile(r *roster.Roster) listOnFile {
	return listOnFile{Epoch: r.Epoch, Digest: hex64(r.Digest), Members: r.Members}
}

// save writes the whole file and returns when it is durable, including the file's name.
func (c *cache) save(s *roster.Saved) error {
	f := cacheFile{Version: cacheVersion, Cluster: c.cluster, Group: c.group, Node: c.node, Fresh: s.Fresh}
	for _, r := range s.Chain {
		f.Chain = append(f.Chain, onFile(r))
	}
	if s.Offer != nil {
		o := onFile(s.Offer)
		f.Offer = &o
	}
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return fmt.Errorf("members.cacheFile: %w", err)
	}
	if err = statefile.Write(c.path, append(text, '\n')); err == nil && !s.Fresh {
		err = c.settle() // an agent that is killed before that settles at its next start, see load
	}
	if err != nil {
		return fmt.Errorf("members.cacheFile: %w", err)
	}
	return nil
}

func hex64(v uint64) string { return fmt.Sprintf("%016x", v) }
