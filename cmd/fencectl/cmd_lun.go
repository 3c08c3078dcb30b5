//go:build linux

package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func newLunCommand(env *environment) *cobra.Command {
	return newGroup("lun COMMAND", "Format, show, measure and mend a LUN",
		`Format, show, measure and mend the LUN that decides equal splits. Its format is described in docs/lun-format.md.

DEVICE is a block device, best named by a path under /dev/disk/by-id or /dev/mapper that is the same after
a reboot. For labs and demos a regular file or loop device will do; a warning says so.`,
		newLunInitCommand(env),
		newLunInspectCommand(env),
		newLunCheckCommand(env),
		newLunReleaseCommand(env),
		newLunExportCommand(env),
		newLunImportCommand(env),
	)
}

// progress shows on a terminal, in one line that is overwritten, what takes time. It
// shows nothing elsewhere.
type progress struct {
	w     io.Writer // nil: no terminal
	shown bool
}

func newProgress(env *environment) *progress {
	if f, ok := env.stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &progress{w: f}
	}
	return &progress{}
}

const clearLine = "\r\x1b[K"

func (p *progress) show(text string) {
	if p.w != nil {
		fmt.Fprint(p.w, clearLine, text)
		p.shown = true
	}
}

// done removes the line, so that what is printed next stands alone.
func (p *progress) done() {
	if p.shown {
		fmt.Fprint(p.w, clearLine)
		p.shown = false
	}
}
