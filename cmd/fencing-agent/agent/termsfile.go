package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/statefile"
	"github.com/fencing-agent/fencing-agent/netgossip"
)

// termsFile is what the agent must remember of the settings by which it broke ties (lease.md T3): the settings, and
// which members have confirmed them. It is next to members.cacheFile.
type termsFile struct {
	path                 string
	cluster, group, node string
}

// knownTerms is the content of the file. It is a value: a copy that was handed over does not change.
type knownTerms struct {
	terms netgossip.Terms
	heard []string // members, sorted
	// storage is the storage's name of each device, by the id in its superblock: a clone has the same id.
	storage map[string]string
}

const termsFileVersion = 1

type termsOnFile struct {
	Version int               `json:"version"`
	Cluster string            `json:"cluster"`
	Group   string            `json:"nodeGroup"`
	Node    string            `json:"node"`
	By      uint8             `json:"by"`
	Log     string            `json:"log,omitempty"`
	Text    string            `json:"terms"` // for people
	Heard   []string          `json:"heard"`
	Storage map[string]string `json:"storage,omitempty"`
}

func newTermsFile(c *config.Config) *termsFile {
	return &termsFile{path: c.TermsFile(), cluster: c.Cluster, group: c.NodeGroup, node: c.NodeName}
}

// errLostTerms is for a file whose content cannot be read. It is safe to continue without it (T3): this node waits
// until a majority confirms its settings.
var errLostTerms = errors.New("cannot be read")

// load returns what was saved, or the zero value if nothing was. With errLostTerms, what was saved is lost.
func (f *termsFile) load() (knownTerms, error) {
	text, err := statefile.Read(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return knownTerms{}, nil
	}
	if err != nil {
		return knownTerms{}, fmt.Errorf("tie-break settings: %w", err)
	}
	known, err := f.decode(text)
	switch {
	case errors.Is(err, errLostTerms):
		return knownTerms{}, err
	case err != nil:
		return knownTerms{}, fmt.Errorf("tie-break settings, %s: %w; to start without them, remove the file and start again: this node then takes no part in a tie until a majority has confirmed its settings", f.path, err)
	}
	return known, nil
}

func (f *termsFile) decode(text []byte) (knownTerms, error) {
	var on termsOnFile
	err := json.Unmarshal(text, &on)
	if err == nil && on.Version == termsFileVersion {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		err = d.Decode(new(termsOnFile))
	}
	switch {
	case err != nil:
		return knownTerms{}, fmt.Errorf("%w: %w", errLostTerms, err)
	case on.Version != termsFileVersion && (on.Node == "" || on.Cluster == f.cluster && on.Group == f.group && on.Node == f.node):
		return knownTerms{}, fmt.Errorf("%w: format %d, but this version only reads format %d", errLostTerms, on.Version, termsFileVersion)
	case on.Cluster == f.cluster && on.Node == f.node && on.Group != f.group:
		return knownTerms{}, fmt.Errorf("the file belongs to node %q in group %q, and nodeGroup is %q: correct nodeGroup if the node was not moved", on.Node, on.Group, f.group)
	case on.Cluster != f.cluster || on.Group != f.group || on.Node != f.node:
		return knownTerms{}, fmt.Errorf("the file belongs to node %q, group %q, cluster %q: give each agent its own folder", on.Node, on.Group, on.Cluster)
	}
	known := knownTerms{terms: netgossip.Terms{By: netgossip.Breakers(on.By)}, heard: on.Heard, storage: on.Storage}
	if on.Log != "" {
		log, err := strconv.ParseUint(on.Log, 16, 64)
		if err != nil {
			return knownTerms{}, fmt.Errorf("%w: log: %w", errLostTerms, err)
		}
		known.terms.Log = log
	}
	return known, nil
}

// save writes all of it and returns when it is durable.
func (f *termsFile) save(k knownTerms) error {
	on := termsOnFile{
		Version: termsFileVersion, Cluster: f.cluster, Group: f.group, Node: f.node,
		By: uint8(k.terms.By), Text: k.terms.String(), Heard: append([]string{}, k.heard...), Storage: k.storage,
	}
	if k.terms.Log != 0 {
		on.Log = hex64(k.terms.Log)
	}
	text, err := json.MarshalIndent(on, "", " ")
	if err == nil {
		err = statefile.Write(f.path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("tie-break settings: %w", err)
	}
	return nil
}

// equal reports whether two contents are the same.
func (k *knownTerms) equal(o *knownTerms) bool {
	if k.terms != o.terms || !slices.Equal(k.heard, o.heard) || len(k.storage) != len(o.storage) {
		return false
	}
	for id, name := range k.storage {
		if o.storage[id] != name {
			return false
		}
	}
	return true
}
