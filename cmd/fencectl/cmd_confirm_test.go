package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// takesWords lets a test's agent accept reported deaths and answer.
func takesWords(a *testAgent, answer func(publish.ToldDeath) (*fencingv1.Death, error)) *publish.ToldDeath {
	got := new(publish.ToldDeath)
	f := publish.Tell(func(_ context.Context, d publish.ToldDeath) (*fencingv1.Death, error) {
		*got = d
		return answer(d)
	})
	a.tell.Store(&f)
	return got
}

func believes(d publish.ToldDeath) (*fencingv1.Death, error) {
	return &fencingv1.Death{
		Proof: d.Proof, BootNonce: "024bc581b3a34be3", Time: timestamppb.New(noon), Teller: "n1", By: d.By, Reference: d.Reference, Reason: d.Reason,
	}, nil
}

// Without a boot nothing is reported: the command shows the known boot, and what to type.
func TestConfirmDeadShowsTheBoot(t *testing.T) {
	a := liveAgent(t, "peer-dead", func(st *fencingv1.Status) {
		n := nodeOf(st, "n4")
		n.State, n.Death, n.BootNonce = fencingv1.NodeState_NODE_STATE_UNREACHABLE, nil, "024bc581b3a34be3"
	})
	told := takesWords(a, believes)
	code, stdout, stderr := ask(t, a, 0, "confirm-dead", "n4")
	for _, want := range []string{"n4: UNREACHABLE", "latest known boot: 024bc581b3a34be3\n", "    fencectl confirm-dead n4 --boot 024bc581b3a34be3 --reason "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("it does not say %q:\n%s", want, stdout)
		}
	}
	if code != exitUsage || !strings.Contains(stderr, "--boot is missing, so nothing was confirmed") || told.Node != "" {
		t.Errorf("exit %d, stderr %q, told %+v", code, stderr, told)
	}
	// An older agent gives the boot only in the token, and an agent that has never met the node gives none.
	a.set(changed(a.status.Load(), func(st *fencingv1.Status) {
		nodeOf(st, "n4").BootNonce, nodeOf(st, "n4").Token = "", &fencingv1.Token{BootNonce: "124bc581b3a34be3"}
	}))
	if _, stdout, _ = ask(t, a, 0, "confirm-dead", "n4"); !strings.Contains(stdout, "latest known boot: 124bc581b3a34be3\n") {
		t.Errorf("of the token:\n%s", stdout)
	}
	a.set(changed(a.status.Load(), func(st *fencingv1.Status) { nodeOf(st, "n4").Token.BootNonce = "0000000000000000" }))
	if code, _, stderr = ask(t, a, 0, "confirm-dead", "n4"); code != exitFailed || !strings.Contains(stderr, "knows no boot of it") {
		t.Errorf("never met: exit %d, %q", code, stderr)
	}
}

func TestConfirmDead(t *testing.T) {
	a := liveAgent(t, "healthy")
	told := takesWords(a, believes)
	code, stdout, stderr := ask(t, a, 0, "confirm-dead", "n4", "--boot", "024bc581b3a34be3", "--by", "alice", "--reason", "outlet 7 is off")
	want := "n4: FENCED - boot 024bc581b3a34be3, proof operator, told by alice\n" +
		"the other agents check it, too: look at \"fencectl wait --fenced n4 --boot 024bc581b3a34be3\" on their nodes\n"
	if code != exitOK || stdout != want || stderr != "" {
		t.Errorf("exit %d, stderr %q, stdout\n%s", code, stderr, stdout)
	}
	if told.Node != "n4" || told.Boot != 0x024bc581b3a34be3 || told.Proof != fencingv1.Proof_PROOF_OPERATOR || told.By != "alice" || told.Reason != "outlet 7 is off" {
		t.Errorf("told %+v", told)
	}
	// The boot is the bootID of Kubernetes, and the proof names a program.
	code, stdout, _ = ask(t, a, 0, "confirm-dead", "n4", "--boot", "024bc581-b3a3-4be2-9a0f-112233445566", "--proof", "power", "--reference", "job-1", "--by", "executor", "-o", "json")
	var r deathResult
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != exitOK || r != (deathResult{Node: "n4", Boot: "024bc581b3a34be3", Proof: "power", Since: noon, Teller: "n1", By: "executor", Reference: "job-1"}) {
		t.Errorf("exit %d, %v\n%s", code, err, stdout)
	}
	takesWords(a, func(publish.ToldDeath) (*fencingv1.Death, error) {
		return &fencingv1.Death{Proof: fencingv1.Proof_PROOF_TIME, BootNonce: "024bc581b3a34be3", Time: timestamppb.New(noon)}, nil
	})
	if _, stdout, _ = ask(t, a, 0, "confirm-dead", "n4", "--boot", "024bc581b3a34be3"); stdout != "n4: FENCED - boot 024bc581b3a34be3, proof time; it was known already\n" {
		t.Errorf("known already: %q", stdout)
	}
}

// A report that is not believed has no exit code that permits anything.
func TestConfirmDeadRefuses(t *testing.T) {
	a := liveAgent(t, "healthy")
	takesWords(a, func(publish.ToldDeath) (*fencingv1.Death, error) { return nil, errors.New("n2 sees n4: it runs") })
	const boot = "024bc581b3a34be3"
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitFailed, "fencectl: not believed: n2 sees n4: it runs\n", []string{"n4", "--boot", boot}},
		{exitFailed, "it runs, and cannot be confirmed dead", []string{"n4"}},
		{exitFailed, "it runs, and cannot be confirmed dead", []string{"n1"}},
		{exitFailed, `"n9" is not a member of this group: the members are n1, n2, n3, n4`, []string{"n9"}},
		{exitFailed, "by must be printable ASCII, of at most 64 characters", []string{"n4", "--boot", boot, "--by", strings.Repeat("x", 65)}},
		{exitFailed, "reason must be printable ASCII, of at most 256 characters", []string{"n4", "--boot", boot, "--reason", "\x1b[2J"}},
		{exitUsage, "NODE is missing", nil},
		{exitUsage, `invalid argument "" for "--boot" flag`, []string{"n4", "--boot", ""}},
		{exitUsage, `invalid argument "1234" for "--boot" flag`, []string{"n4", "--boot", "1234"}},
		{exitUsage, "it must be one of operator, power, kdump", []string{"n4", "--boot", boot, "--proof", "time"}},
		{exitUsage, "--proof power needs --reference", []string{"n4", "--boot", boot, "--proof", "power"}},
		{exitUsage, "--proof kdump needs --reference", []string{"n4", "--boot", boot, "--proof", "kdump"}},
		{exitFailed, "it does not exist", []string{"n4", "--boot", boot, "--socket", a.path + "x"}},
	} {
		if code, stdout, stderr := ask(t, a, 0, append([]string{"confirm-dead"}, c.args...)...); code != c.code || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit %d, stdout %q, stderr %q; want %d, %s", c.args, code, stdout, stderr, c.code, c.says)
		}
	}
	fenced := liveAgent(t, "peer-fenced")
	if code, stdout, _ := ask(t, fenced, 0, "confirm-dead", "n4"); code != exitOK || !strings.Contains(stdout, "there is nothing to confirm") {
		t.Errorf("fenced already: exit %d, %q", code, stdout)
	}
	_, stdout, _ := ask(t, a, time.Second, "__complete", "confirm-dead", "")
	if want := "n2\nn3\nn4\n"; !strings.HasPrefix(stdout, want) {
		t.Errorf("completion offers %q, want %q", stdout, want)
	}
}
