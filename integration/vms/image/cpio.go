package image

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// archive writes the format that the kernel unpacks as its first file system: cpio, "newc". It adds folders when they
// are needed.
type archive struct {
	w       *bufio.Writer
	inode   int
	written int64
	have    map[string]bool
	err     error // the first one
}

func newArchive(w io.Writer) *archive {
	return &archive{w: bufio.NewWriter(w), have: map[string]bool{}}
}

const (
	modeDir  = 0o040755
	modeFile = 0o100000
	modeLink = 0o120777
)

func (a *archive) put(s string) {
	if a.err == nil {
		n, err := a.w.WriteString(s)
		a.written += int64(n)
		a.err = err
	}
}

func (a *archive) pad() {
	if rest := a.written % 4; rest != 0 {
		a.put(strings.Repeat("\x00", int(4-rest)))
	}
}

func (a *archive) entry(name string, mode int, content string) {
	name = strings.TrimPrefix(path.Clean(name), "/")
	if a.have[name] {
		return
	}
	if dir := path.Dir(name); dir != "." {
		a.entry(dir, modeDir, "")
	}
	a.have[name] = true
	a.raw(name, mode, content)
}

func (a *archive) raw(name string, mode int, content string) {
	a.inode++
	fields := []int{a.inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0}
	header := "070701"
	for _, f := range fields {
		header += fmt.Sprintf("%08X", f)
	}
	a.put(header + name + "\x00")
	a.pad()
	a.put(content)
	a.pad()
}

func (a *archive) dir(name string) { a.entry(name, modeDir, "") }

func (a *archive) file(name string, perm fs.FileMode, content []byte) {
	a.entry(name, modeFile|int(perm), string(content))
}

func (a *archive) link(name, to string) { a.entry(name, modeLink, to) }

func (a *archive) close() error {
	a.raw("TRAILER!!!", 0, "")
	if a.err != nil {
		return a.err
	}
	return a.w.Flush()
}
