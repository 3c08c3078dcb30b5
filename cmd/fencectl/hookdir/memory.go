package hookdir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// maxMemory bounds the file: more deaths are not told while none of these nodes boots.
const (
	maxMemory      = 1 << 20 // bytes
	maxRemembered  = 4096
	memoryVersion1 = 1
)

// Memory is the deaths that were told and not withdrawn, on file: a withdrawal that comes while nobody listens is told after a
// restart. One goroutine at a time.
type Memory struct {
	path string
	list []Death
}

type memoryFile struct {
	Version int     `json:"version"`
	Deaths  []Death `json:"deaths"`
}

// Remember reads the file. One that is damaged is an error, with an empty memory that is used from then on: it costs withdrawals,
// and no death.
func Remember(path string) (*Memory, error) {
	m := &Memory{path: path}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, nil
	case err != nil:
		return m, fmt.Errorf("what was told before: %w", err)
	case len(text) > maxMemory:
		return m, fmt.Errorf("what was told before: %s is larger than %d bytes, this command did not write it", path, maxMemory)
	}
	var f memoryFile
	if err := json.Unmarshal(text, &f); err != nil || f.Version != memoryVersion1 {
		return m, fmt.Errorf("what was told before: %s cannot be read (version %d, %v): withdrawals of it are lost", path, f.Version, err)
	}
	m.list = f.Deaths
	return m, nil
}

// Deaths are those that were told and not withdrawn.
func (m *Memory) Deaths() []Death { return slices.Clone(m.list) }

// Note takes what is about to be told. It is called before: a command that is killed in between tells again.
func (m *Memory) Note(d Death) error {
	m.list = slices.DeleteFunc(m.list, func(o Death) bool { return o.Node == d.Node && o.Boot == d.Boot })
	if d.Event == Fenced {
		m.list = append(m.list, d)
		m.list = m.list[max(0, len(m.list)-maxRemembered):]
	}
	text, err := json.Marshal(memoryFile{memoryVersion1, m.list})
	if err != nil {
		return err
	}
	return replaceFile(m.path, append(text, '\n'))
}

// replaceFile has a reader find the old content or the new one, also after a reset.
func replaceFile(path string, text []byte) error {
	t, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = t.Write(text)
	if err == nil {
		err = t.Sync()
	}
	if err = errors.Join(err, t.Close()); err == nil {
		err = os.Rename(t.Name(), path)
	}
	if err != nil {
		_ = os.Remove(t.Name()) // the error that counts is the one returned
	}
	return err
}
