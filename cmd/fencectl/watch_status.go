package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"golang.org/x/term"
	"google.golang.org/protobuf/types/known/emptypb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/view"
	"github.com/fencing-agent/fencing-agent/api/words"
)

// The terminal's sequences for a screen that is overwritten without flicker.
const (
	screenHome  = "\x1b[?7l\x1b[H" // no wrapping: a window that has just shrunk must not push the lines down
	screenLine  = "\x1b[K\r\n"
	screenEnd   = "\x1b[J\x1b[?7h"
	screenClear = "\x1b[2J"
)

// statusLog prints the statuses of WatchStatus. It is used for several connections.
type statusLog struct {
	env   *environment
	json  bool
	shown *shownFlags
	size  func() (width, height int) // of the terminal; nil: the output is not a terminal

	began bool
	last  verdictKey
}

// verdictKey is the part of a verdict that is compared to detect a change.
type verdictKey struct {
	permission fencingv1.Permission
	reason     fencingv1.Reason
	quorum     bool
	stale      bool
}

func newStatusLog(env *environment, format string, shown *shownFlags) *statusLog {
	return &statusLog{env: env, json: format == formatJSON, shown: shown, size: terminalSize(env)}
}

// terminalSize returns nil if the output is not a terminal with a movable cursor.
func terminalSize(env *environment) func() (width, height int) {
	f, ok := env.stdout.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || env.getenv("TERM") == "dumb" {
		return nil
	}
	return func() (int, int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil || width < 20 || height < 3 {
			return 80, 24
		}
		return width, height
	}
}

// follow prints until the stream ends, and returns why it did.
func (l *statusLog) follow(ctx context.Context, conn *agentConn, connected func()) error {
	ctx, answered, cancel := conn.impatient(ctx)
	defer cancel()
	stream, err := fencingv1.NewFencingStatusClient(conn).WatchStatus(ctx, &emptypb.Empty{})
	for first := true; err == nil; first = false {
		var st *fencingv1.Status
		if st, err = stream.Recv(); err != nil {
			break
		}
		if first {
			answered()
			connected()
		}
		if err := l.print(st); err != nil {
			return err
		}
	}
	return conn.explain(ctx, err)
}

func (l *statusLog) print(st *fencingv1.Status) error {
	switch {
	case l.json:
		return writeLine(l.env, st)
	case l.size != nil:
		return writeText(l.env, l.frame(st))
	default:
		return l.line(st)
	}
}

// line prints the verdict if it has changed.
func (l *statusLog) line(st *fencingv1.Status) error {
	v, now := st.GetVerdict(), l.env.clock()
	age, old := view.Stale(st, now)
	key := verdictKey{v.GetPermission(), v.GetReason(), v.GetQuorum(), old}
	if l.began && key == l.last {
		return nil
	}
	l.began, l.last = true, key
	p := &view.Page{Color: colorful(l.env)}
	at := v.GetSince().AsTime()
	if old || v.GetSince() == nil {
		at = now
	}
	p.Paint(view.Say(fmt.Sprintf("%s  %s: ", at.In(l.env.zone()).Format(timeLayout), st.GetSelf().GetName()), view.Plain))
	if old {
		p.Paint(view.Say("THE AGENT STANDS STILL", view.Bad))
		p.Paint(view.Say(fmt.Sprintf(" for %s; its last verdict: ", view.Brief(age)), view.Plain))
	}
	p.Paint(view.Permission(st))
	p.Paint(view.Say(" - "+words.Reason(v), view.Plain))
	if c := view.Consequence(st); c.Style != view.Plain { // other consequences are obvious
		p.Paint(view.Say("; "+c.Text, view.Plain))
	}
	p.Gap()
	return writeText(l.env, p.Bytes())
}

// frame is the whole status as a screen, folded to the terminal's width and cut to its height.
func (l *statusLog) frame(st *fencingv1.Status) []byte {
	width, height := l.size()
	v := view.Text{Now: l.env.clock(), Zone: l.env.zone(), Color: colorful(l.env), Width: width - 1, All: l.shown.all, Verbose: l.shown.verbose}
	b := screen(v.Render(st), width, height, !l.began, fmt.Sprintf("-- %s, Ctrl-C ends", st.GetTime().AsTime().In(l.env.zone()).Format(timeLayout)))
	l.began = true
	return b
}

// screen is text that overwrites what the terminal shows, folded to its width and cut to its height.
func screen(text []byte, width, height int, first bool, footer string) []byte {
	var lines [][]byte
	for line := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) {
		// The last column stays free: the sequence that ends a line would erase it.
		lines = append(lines, fold(line, width-1)...)
	}
	// One line is for the cursor, and one for the notice below.
	if room := height - 2; len(lines) > room {
		lines = append(lines[:room-1:room-1], fmt.Appendf(nil, "... %d more lines: enlarge the window or print it once", len(lines)-room+1))
	}
	var b bytes.Buffer
	if first {
		b.WriteString(screenClear)
	}
	b.WriteString(screenHome)
	for _, line := range lines {
		b.Write(line)
		b.WriteString(screenLine)
	}
	b.WriteString(footer + screenLine)
	b.WriteString(screenEnd)
	return b.Bytes()
}

// foldIndent is the column in which a folded line continues.
const foldIndent = 4

// fold breaks a line that is too long, at spaces if possible. The sequences for its colors take no room; a color that
// is open at the break continues after it.
func fold(line []byte, width int) (lines [][]byte) {
	width = max(width, foldIndent+1)
	for {
		column, space, i := 0, 0, 0
		for i < len(line) && column <= width {
			switch {
			case line[i] == '\x1b':
				i += 1 + max(0, bytes.IndexByte(line[i+1:], 'm'))
			case line[i] == ' ' && column > foldIndent:
				space = i
				column++
			default:
				column++
			}
			i++
		}
		if column <= width {
			return append(lines, line)
		}
		at := i - 1
		if space > 0 {
			at = space
		}
		lines = append(lines, bytes.TrimRight(line[:at:at], " "))
		line = append(bytes.Repeat([]byte(" "), foldIndent), bytes.TrimLeft(line[at:], " ")...)
	}
}
