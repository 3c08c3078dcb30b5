//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
)

func newLunCommand(env *environment) *cobra.Command {
	group := newGroup("lun COMMAND", "Format, show, measure and mend a LUN",
		`Format, show, measure and mend the LUN that decides equal splits. Its format is described in docs/lun-format.md.

DEVICE is a block device, best named by a path under /dev/disk/by-id or /dev/mapper that is the same after
a reboot, or wwn: and the hexadecimal digits of its name. For labs and demos a regular file or loop device
will do; a warning says so.`,
		newLunInitCommand(env),
		newLunInspectCommand(env),
		newLunCheckCommand(env),
	)
	repair := newLunRepairCommand(env)
	for _, c := range append(group.Commands(), repair.Commands()...) {
		byName(c)
	}
	group.AddCommand(repair)
	return group
}

// newLunRepairCommand groups the verbs that are needed only after something went wrong or was removed.
func newLunRepairCommand(env *environment) *cobra.Command {
	return newGroup("repair COMMAND", "Free a slot, restore a superblock",
		`Free the slot of a node that is gone, restore a copy of the superblock.
On a normal day neither is needed.`,
		newLunReleaseCommand(env),
		newLunSuperblockCommand(env),
	)
}

// byName allows wwn:NAME in a verb's arguments, as in lun.devices. The verb gets a path, because it looks by path for
// processes that use the device.
func byName(c *cobra.Command) {
	verb := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		paths := make([]string, len(args))
		for i, spec := range args {
			path, err := lunadmin.Find(spec)
			if err != nil {
				return err
			}
			paths[i] = path
		}
		return verb(cmd, paths)
	}
}

// damagedError is the error of a command that has found damage. The command prints its result first.
func damagedError(device string, damage []string) error {
	if len(damage) == 0 {
		return nil
	}
	return fmt.Errorf("%s is damaged: %s; see \"a damaged slot\" in docs/troubleshooting.md, and fencectl lun repair", device, strings.Join(damage, "; "))
}

// exitCodes is what a job needs to know about a verb that looks for damage.
const exitCodes = `Exit codes, for a job that runs each night: 0 in order; 1 damaged, or the device could not be read: a copy of the
superblock, or a slot that agents cannot tell; 2 bad usage.`

// progress shows the progress of a long operation. On a terminal it overwrites one line; otherwise it prints a line
// from time to time. It belongs to the goroutine of the verb.
type progress struct {
	env   *environment
	w     io.Writer // nil: not a terminal
	shown bool

	text atomic.Pointer[string]
	stop func() // ends the goroutine that prints the lines, and waits for it; nil: there is none
}

// A short operation needs no line; after this time, lines are printed at intervals.
const (
	firstLine = 2 * time.Second
	nextLine  = 10 * time.Second
)

func newProgress(env *environment) *progress {
	p := &progress{env: env}
	if f, ok := env.stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.w = f
	}
	return p
}

const clearLine = "\r\x1b[K"

func (p *progress) show(text string) {
	if p.w != nil {
		fmt.Fprint(p.w, clearLine, text)
		p.shown = true
		return
	}
	p.text.Store(&text)
	if p.stop == nil {
		p.stop = p.lines()
	}
}

// lines prints the present text at intervals until it is stopped.
func (p *progress) lines() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		timer := time.NewTimer(firstLine)
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
				p.env.warn(*p.text.Load())
				timer.Reset(nextLine)
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// done removes the line before other output is printed.
func (p *progress) done() {
	if p.shown {
		fmt.Fprint(p.w, clearLine)
		p.shown = false
	}
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
}
