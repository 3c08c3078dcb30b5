//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fencing-agent/fencing-agent/diskquorum"
	"github.com/fencing-agent/fencing-agent/diskquorum/diskquorumtest"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
)

// TestLunScripts runs the scripts that need direct I/O, in a directory that supports it.
func TestLunScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/lun",
		WorkdirRoot:         diskquorumtest.DirectDir(t),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exit": expectExit, "zeros": makeZeros, "put": putBytes, "slot": putSlot, "same": sameFiles,
		},
	})
}

// makeZeros is the script command "zeros FILE SIZE".
func makeZeros(ts *testscript.TestScript, _ bool, args []string) {
	size, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), make([]byte, size), 0o600))
}

// putBytes is the script command "put FILE OFFSET TEXT": it writes TEXT, which may have escapes such as \x00.
func putBytes(ts *testscript.TestScript, _ bool, args []string) {
	offset, err := strconv.ParseInt(args[1], 0, 64)
	ts.Check(err)
	text, err := strconv.Unquote(`"` + args[2] + `"`)
	ts.Check(err)
	modify(ts, args[0], func(b []byte) { copy(b[offset:], text) })
}

func modify(ts *testscript.TestScript, name string, f func([]byte)) {
	path := ts.MkAbs(name)
	b, err := os.ReadFile(path)
	ts.Check(err)
	f(b)
	ts.Check(os.WriteFile(path, b, 0o600))
}

// sameFiles is the script command "same FILE1 FILE2". It does not print megabytes if the files differ.
func sameFiles(ts *testscript.TestScript, neg bool, args []string) {
	a, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	b, err := os.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	if bytes.Equal(a, b) == neg {
		ts.Fatalf("%s and %s: same is %v", args[0], args[1], !neg)
	}
}

// putSlot is the script command "slot FILE INDEX SEQUENCE [decided=INSTANCE] [pending=INSTANCE] [state=N]". It writes
// the slot of node-INDEX, whose roster has four nodes and counts the first two. If the slot's copy is blank, it gets
// the previous record.
func putSlot(ts *testscript.TestScript, _ bool, args []string) {
	index, err := strconv.Atoi(args[1])
	ts.Check(err)
	sequence, err := strconv.ParseUint(args[2], 0, 64)
	ts.Check(err)
	token := diskquorum.Token{Nonce: 0xB0 + uint64(index), Counter: 2}
	s := diskquorum.Slot{
		Index: index, State: diskquorum.SlotActive, Sequence: sequence, NodeName: "node-" + args[1], Process: 1,
		RosterIndex: index, RosterSize: 4, HeartbeatInterval: 100 * time.Millisecond, WallTime: 1_700_000_000_000,
		Statement: netgossip.Statement{
			Boot: token.Nonce, Token: token, RosterDigest: 7, View: roster.SetOf(0, 1), Feeding: true, LUNHealthy: true,
			Guard: netgossip.Guard{Armed: true, Fences: true, Timeout: 30 * time.Second},
		},
	}
	g := &diskquorum.Grant{Holders: []diskquorum.Holder{{Slot: 0, Token: diskquorum.Token{Nonce: 0xB0, Counter: 2}}, {Slot: 1, Token: diskquorum.Token{Nonce: 0xB1, Counter: 1}}}}
	for _, arg := range args[3:] {
		name, value, _ := strings.Cut(arg, "=")
		instance, err := strconv.ParseUint(value, 0, 64)
		ts.Check(err)
		switch name {
		case "decided":
			s.Ballot.DecidedInstance, s.Ballot.Decided = instance, g
		case "state":
			s.State = diskquorum.SlotState(instance)
		case "pending":
			s.Ballot.Instance, s.Ballot.MBal, s.Ballot.Bal, s.Ballot.Value = instance, 3, 3, g
		default:
			ts.Fatalf("slot: unknown %s", arg)
		}
	}
	modify(ts, args[0], func(b []byte) {
		sb, err := diskquorum.ReadSuperblock(b)
		ts.Check(err)
		put := func() {
			block := b[diskquorum.SlotOffset(index, int(s.Sequence%2)):][:diskquorum.BlockSize]
			ts.Check(diskquorum.EncodeSlot(block, sb.ID, &s, int(s.Sequence%2)))
		}
		put()
		other := b[diskquorum.SlotOffset(index, int(1-sequence%2)):][:diskquorum.BlockSize]
		if s.Sequence--; s.Sequence > 0 && !slices.ContainsFunc(other, func(c byte) bool { return c != 0 }) {
			put() // otherwise the slot would look as if the copy had been zeroed
		}
	})
}

// TestLunLoopDevice runs the three verbs on a block device.
func TestLunLoopDevice(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		dev := diskquorumtest.LoopDevice(t, diskquorumtest.File(t, 1<<20), sector)
		for _, args := range [][]string{
			{"lun", "init", dev, "--cluster", "main", "--node-group", "worker", "--slots", "8"},
			{"lun", "inspect", dev},
			{"lun", "check", dev, "-n", "5"},
		} {
			code, stdout, stderr := runIn(t, "", nil, args...)
			if code != exitOK || !strings.Contains(stdout, dev) || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "is a loop device") {
				t.Errorf("%v: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
			}
		}
	}
}

// TestProgressOffATerminal: a long operation prints its progress, and a short one does not.
func TestProgressOffATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stderr strings.Builder
		p := newProgress(&environment{name: "fencectl", stderr: &stderr})
		p.show("reading")
		time.Sleep(time.Second)
		p.done()
		if stderr.String() != "" {
			t.Errorf("of one second it says %q", stderr.String())
		}
		for left := 25; left > 0; left-- {
			p.show(fmt.Sprintf("watching, %ds left", left))
			time.Sleep(time.Second + time.Millisecond)
		}
		p.done()
		time.Sleep(time.Minute)
		if want := "fencectl: watching, 24s left\nfencectl: watching, 14s left\nfencectl: watching, 4s left\n"; stderr.String() != want {
			t.Errorf("it says\n%swant\n%s", stderr.String(), want)
		}
	})
}
