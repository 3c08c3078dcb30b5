package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// rosterCache is members.cacheFile: what the agent must remember of its lists of members over
// a restart. Forgetting a list that was taken up would let two parts of the group live.
type rosterCache struct {
	path                 string
	cluster, group, node string
}

const rosterCacheVersion = 1

// rosterFile is the file's content.
type rosterFile struct {
	Version int            `json:"version"`
	Cluster string         `json:"cluster"`
	Group   string         `json:"nodeGroup"`
	Node    string         `json:"node"`
	Fresh   bool           `json:"fresh,omitempty"` // no list is known to be in force
	Chain   []rosterOnFile `json:"chain"`           // in force, then those taken up
	Offer   *rosterOnFile  `json:"offer,omitempty"` // ready to be taken up
}

type rosterOnFile struct {
	Epoch   uint64          `json:"epoch"`
	Digest  string          `json:"digest"` // proves that the rest is what was written
	Members []roster.Member `json:"members"`
}

func newRosterCache(c *config.Config) *rosterCache {
	return &rosterCache{path: c.Members.CacheFile, cluster: c.Cluster, group: c.NodeGroup, node: c.NodeName}
}

const forgetHint = "if no other agent of the group runs, or all have the present list in force, remove the file and start again"

// load returns what was saved, or nil if nothing was.
func (c *rosterCache) load() (*roster.Saved, error) {
	text, err := readState(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("members.cacheFile: %w", err)
	}
	saved, err := c.decode(text)
	if err != nil {
		return nil, fmt.Errorf("members.cacheFile %s: %w; %s", c.path, err, forgetHint)
	}
	return saved, nil
}

func (c *rosterCache) decode(text []byte) (*roster.Saved, error) {
	var f rosterFile
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	switch err := d.Decode(&f); {
	case err != nil:
		return nil, fmt.Errorf("damaged: %w", err)
	case f.Version != rosterCacheVersion:
		return nil, fmt.Errorf("format %d, this version knows %d", f.Version, rosterCacheVersion)
	case f.Cluster != c.cluster || f.Group != c.group || f.Node != c.node:
		return nil, fmt.Errorf("it is of node %q, group %q, cluster %q: give each agent a file of its own", f.Node, f.Group, f.Cluster)
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

func (o *rosterOnFile) roster(self string) (*roster.Roster, error) {
	r, err := roster.Of(o.Epoch, o.Members, self)
	if err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	if hex64(r.Digest) != o.Digest {
		return nil, fmt.Errorf("damaged: the list of epoch %d does not have the digest it was written with", o.Epoch)
	}
	return r, nil
}

func onFile(r *roster.Roster) rosterOnFile {
	return rosterOnFile{Epoch: r.Epoch, Digest: hex64(r.Digest), Members: r.Members}
}

// save writes all of it and returns when it is durable, the name of the file included.
func (c *rosterCache) save(s *roster.Saved) error {
	f := rosterFile{Version: rosterCacheVersion, Cluster: c.cluster, Group: c.group, Node: c.node, Fresh: s.Fresh}
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
	if err := writeDurably(c.path, append(text, '\n')); err != nil {
		return fmt.Errorf("members.cacheFile: %w", err)
	}
	return nil
}

// writeDurably replaces a file: a reader finds the old content or the new one.
func writeDurably(path string, text []byte) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	t, err := os.CreateTemp(dir, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(t.Name()) // the error that counts is the one returned
		}
	}()
	_, err = t.Write(text)
	if err == nil {
		err = t.Sync()
	}
	if err = errors.Join(err, t.Close()); err != nil {
		return err
	}
	if err := os.Rename(t.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
