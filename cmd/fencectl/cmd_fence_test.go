package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// takesOrders lets a test's agent accept orders and answer.
func takesOrders(a *testAgent, answer func(publish.FenceOrder) error) *publish.FenceOrder {
	got := new(publish.FenceOrder)
	f := publish.Order(func(_ context.Context, o publish.FenceOrder) error {
		*got = o
		return answer(o)
	})
	a.order.Store(&f)
	return got
}

const thatBoot = "024bc581b3a34be3"

func TestFence(t *testing.T) {
	a := liveAgent(t, "healthy", func(st *fencingv1.Status) { nodeOf(st, "n4").BootNonce = thatBoot })
	got := takesOrders(a, func(publish.FenceOrder) error { return nil })
	code, stdout, stderr := ask(t, a, 0, "fence", "n4", "--by", "alice", "--reason", "it hangs")
	want := "n4: boot 024bc581b3a34be3 has condemned itself, and is reset; it is dead when \"fencectl wait --fenced n4 --boot 024bc581b3a34be3\" says so\n"
	if code != exitOK || stdout != want || stderr != "" {
		t.Errorf("exit %d, stderr %q, stdout\n%s", code, stderr, stdout)
	}
	if *got != (publish.FenceOrder{Node: "n4", Boot: 0x024bc581b3a34be3, By: "alice", Reason: "it hangs"}) {
		t.Errorf("ordered %+v", *got)
	}
	if _, _, _ = ask(t, a, 0, "fence", "n4", "--boot", "111bc581-b3a3-4be2-9a0f-112233445566"); got.Boot != 0x111bc581b3a34be3 {
		t.Errorf("the boot that was named: %x", got.Boot)
	}
}

// With --wait the command returns the death.
func TestFenceWaits(t *testing.T) {
	a := liveAgent(t, "healthy", func(st *fencingv1.Status) { nodeOf(st, "n4").BootNonce = thatBoot; st.Time = timestamppb.Now() })
	takesOrders(a, func(publish.FenceOrder) error {
		a.set(changed(a.status.Load(), func(st *fencingv1.Status) {
			n := nodeOf(st, "n4")
			n.Reachable, n.State = false, fencingv1.NodeState_NODE_STATE_FENCED
			n.Death = &fencingv1.Death{Proof: fencingv1.Proof_PROOF_SENTENCE, BootNonce: thatBoot, Time: timestamppb.New(noon)}
		}))
		return nil
	})
	if code, stdout, stderr := ask(t, a, 0, "fence", "n4", "--wait"); code != exitOK || !strings.HasPrefix(stdout, "n4: boot 024bc581b3a34be3 is dead, proof sentence") {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	takesOrders(a, func(publish.FenceOrder) error { return nil })
	a.set(changed(a.status.Load(), func(st *fencingv1.Status) {
		n := nodeOf(st, "n4")
		n.Reachable, n.State, n.Death = true, fencingv1.NodeState_NODE_STATE_UNSPECIFIED, nil
	}))
	if code, stdout, stderr := ask(t, a, 0, "fence", "n4", "--wait", "--timeout", "200ms"); code != exitTimeout || stdout != "" || !strings.Contains(stderr, "is not proven dead after 200ms") {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
}

func TestFenceRefuses(t *testing.T) {
	a := liveAgent(t, "healthy", func(st *fencingv1.Status) { nodeOf(st, "n4").BootNonce = thatBoot })
	takesOrders(a, func(publish.FenceOrder) error { return errors.New("n4 cannot be reached: power it off") })
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitFailed, "fencectl: not fenced: n4 cannot be reached: power it off\n", []string{"n4"}},
		{exitFailed, `"n9" is not a member of this group: the members are n1, n2, n3, n4`, []string{"n9"}},
		{exitFailed, "by must be printable ASCII, of at most 64 characters", []string{"n4", "--by", strings.Repeat("x", 65)}},
		{exitUsage, "NODE is missing", nil},
		{exitUsage, `invalid argument "" for "--boot" flag`, []string{"n4", "--boot", ""}},
		{exitUsage, `"--timeout" flag: it must be more than 0`, []string{"n4", "--timeout", "0s"}},
	} {
		if code, stdout, stderr := ask(t, a, 0, append([]string{"fence"}, c.args...)...); code != c.code || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit %d, %q, %q", c.args, code, stdout, stderr)
		}
	}
}
