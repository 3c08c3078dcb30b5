package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/view"
)

func statuses(format string) func(*environment) follower {
	return func(env *environment) follower { return newStatusLog(env, format, new(shownFlags)).follow }
}

func TestWatchStatusPrintsVerdicts(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	a.set(scene(t, "healthy"))
	w := watch(t, a.path, newOutput(), statuses(formatTable))
	w.stdout.until(t, "the first verdict", lines(1))
	a.set(scene(t, "split-pending"))
	w.stdout.until(t, "the second", lines(2))
	a.set(scene(t, "lun-failed"))
	w.stdout.until(t, "the third", lines(3))
	a.set(scene(t, "split-lost"))
	w.stdout.until(t, "the fourth", lines(4))
	old := scene(t, "split-lost")
	old.Time = timestamppb.New(noon.Add(-time.Minute))
	a.set(old)
	w.stdout.until(t, "the fifth", lines(5))

	a.stop(t.Context())
	w.pausing(t)
	b := startAgentAt(t, a.path, publish.HubConfig{})
	b.set(scene(t, "starting"))
	w.resume <- struct{}{}
	w.stdout.until(t, "the verdict of the next agent", lines(6))
	w.cancel()
	if err := w.waitEnd(t); err != nil {
		t.Error(err)
	}
	compareGolden(t, filepath.Join("testdata", "status", "watch.golden"), w.stdout.String())
	if got := w.stderr.String(); !strings.Contains(got, "the agent is stopping") || !strings.Contains(got, "connected again") {
		t.Errorf("stderr %q", got)
	}
}

// TestSameVerdictIsNoLine: if the verdict is the same, no line is printed, whatever else has changed.
func TestSameVerdictIsNoLine(t *testing.T) {
	out := newOutput()
	log := newStatusLog(&environment{stdout: out, getenv: func(string) string { return "" }, now: func() time.Time { return noon }}, formatTable, new(shownFlags))
	for _, name := range []string{"healthy", "network-cut", "lun-failed"} {
		if err := log.print(scene(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.String(); strings.Count(got, "\n") != 1 {
		t.Errorf("three statuses with one verdict are\n%s", got)
	}
}

func TestWatchStatusJSON(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	a.set(scene(t, "healthy"))
	w := watch(t, a.path, newOutput(), statuses(formatJSON))
	w.stdout.until(t, "a status", lines(1))
	a.set(scene(t, "lun-failed")) // the same verdict, another status
	w.stdout.until(t, "the next", func(text string) bool {
		return strings.Contains(text, "input/output error") && strings.HasSuffix(text, "\n")
	})
	all := strings.Split(strings.TrimSpace(w.stdout.String()), "\n")
	var last fencingv1.Status
	if err := protojson.Unmarshal([]byte(all[len(all)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if want := scene(t, "lun-failed"); !proto.Equal(last.Luns[0], want.Luns[0]) {
		t.Errorf("got %v", last.Luns[0])
	}
}

func TestScreenFitsTheTerminal(t *testing.T) {
	height := 12
	log := &statusLog{
		env: &environment{getenv: func(string) string { return "UTC" }, now: func() time.Time { return noon }}, shown: &shownFlags{verbose: true}, size: func() (int, int) { return 120, height },
	}
	st := scene(t, "split-lost")
	first := string(log.frame(st))
	if !strings.HasPrefix(first, screenClear+screenHome+st.Self.Name+": NOT FEEDING") || !strings.HasSuffix(first, screenEnd) {
		t.Errorf("the first frame is %q", first)
	}
	if n := strings.Count(first, screenLine); n != height-1 {
		t.Errorf("%d lines on a terminal of %d", n, height)
	}
	whole := strings.Count(string((&view.Text{Now: noon, Zone: time.UTC, Width: 119, Verbose: true}).Render(st)), "\n")
	if !strings.Contains(first, fmt.Sprintf("... %d more lines", whole-(height-3))) {
		t.Errorf("nothing says that lines are missing: %q", first)
	}
	height = 100
	second := string(log.frame(st))
	if strings.Contains(second, screenClear) || strings.Contains(second, "more lines") || !strings.Contains(second, "-- "+st.Time.AsTime().Format(timeLayout)+", Ctrl-C ends") {
		t.Errorf("the second frame is %q", second)
	}
}

// TestScreenCutsNoText: columns that do not fit beside each other are shown below, and nothing is lost.
func TestScreenCutsNoText(t *testing.T) {
	words := func(text string) []string { return strings.Fields(text) }
	for _, sc := range scenes {
		st := scene(t, sc.name)
		for _, width := range []int{40, 60, 80, 100, 132} {
			v := view.Text{Now: noon, Zone: time.UTC, Width: width - 1, Verbose: true}
			whole := v.Render(st)
			shown := string(screen(whole, width, 1000, false, "-- end"))
			shown = strings.TrimSuffix(strings.TrimPrefix(shown, screenHome), screenEnd)
			for line := range strings.SplitSeq(shown, screenLine) {
				if len(line) >= width {
					t.Fatalf("%s: a line of %d columns on a terminal of %d: %q", sc.name, len(line), width, line)
				}
			}
			got := words(strings.ReplaceAll(shown, screenLine, "\n"))
			if want := append(words(string(whole)), "--", "end"); !slices.Equal(got, want) {
				t.Errorf("%s on %d columns: %d words of %d are shown", sc.name, width, len(got), len(want))
			}
		}
	}
}

// TestFoldKeepsColors: folding keeps colors, and breaks text that has no spaces.
func TestFoldKeepsColors(t *testing.T) {
	red := func(s string) string { return "\x1b[1;31m" + s + "\x1b[0m" }
	for _, tt := range []struct {
		line  string
		width int
		want  []string
	}{
		{"", 10, []string{""}},
		{"short", 10, []string{"short"}},
		{"exactly 10", 10, []string{"exactly 10"}},
		{"seven and more words", 10, []string{"seven and", "    more", "    words"}},
		{"node  " + red("LOST") + "  tail", 12, []string{"node  " + red("LOST"), "    tail"}},
		{"0123456789abcdefghij", 10, []string{"0123456789", "    abcdef", "    ghij"}},
	} {
		var got []string
		for _, l := range fold([]byte(tt.line), tt.width) {
			got = append(got, string(l))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q on %d columns is %q, want %q", tt.line, tt.width, got, tt.want)
		}
	}
}

// terminal runs fencectl on a pseudo-terminal until its output meets the condition or it ends by itself. It returns all
// of the output.
func terminal(t *testing.T, env []string, ok func(string) bool, args ...string) string {
	t.Helper()
	emulator, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	defer emulator.Close()
	number, err := unix.IoctlGetInt(int(emulator.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(emulator.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "fencectl", args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = tty, tty
	err = errors.Join(cmd.Start(), tty.Close())
	if err != nil {
		t.Fatal(err)
	}
	out, read := newOutput(), make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(out, emulator) // ends with EIO when the program has ended
	}()
	if ok != nil {
		out.until(t, "the screen", ok)
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %v", args, err)
	}
	<-read
	return out.String()
}

// TestTerminal: colors and a screen that is overwritten appear only on a terminal.
func TestTerminal(t *testing.T) {
	a := startAgent(t, publish.HubConfig{})
	st := scene(t, "split-lost")
	st.Time = timestamppb.New(time.Now().Add(time.Hour)) // so that it is never stale
	a.set(st)
	plain := []string{envSocket + "=" + a.path, "NO_COLOR=", "TERM=xterm"}

	if got := terminal(t, plain, nil, "status"); !strings.Contains(got, "\x1b[1;31m"+"FEEDING\x1b[0m") {
		t.Errorf("a terminal shows %q", got)
	}
	if got := terminal(t, append(plain, "NO_COLOR=1"), nil, "status"); strings.Contains(got, "\x1b") || !strings.Contains(got, "NOT FEEDING") {
		t.Errorf("with NO_COLOR a terminal shows %q", got)
	}
	whole := func(text string) bool { return strings.Count(text, screenEnd) >= 2 }
	got := terminal(t, plain, func(text string) bool {
		a.server.StatusChanged()
		return whole(text)
	}, "watch", "--status")
	if strings.Count(got, screenClear) != 1 || !strings.Contains(got, "\x1b[1;31m"+"FEEDING\x1b[0m") {
		t.Errorf("the screen is %q", got)
	}
	got = terminal(t, append(plain, "TERM=dumb"), func(text string) bool { return strings.Contains(text, "\n") }, "watch", "--status")
	if strings.Contains(got, screenHome) || strings.Count(got, "\n") != 1 {
		t.Errorf("a dumb terminal shows %q", got)
	}
}
