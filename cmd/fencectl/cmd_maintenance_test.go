package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

func takesMaintenance(a *testAgent, answer func(publish.Maintenance) (time.Time, error)) *publish.Maintenance {
	got := new(publish.Maintenance)
	f := publish.Maintain(func(_ context.Context, m publish.Maintenance) (time.Time, error) {
		*got = m
		return answer(m)
	})
	a.maintain.Store(&f)
	return got
}

func TestMaintenance(t *testing.T) {
	a := liveAgent(t, "healthy")
	got := takesMaintenance(a, func(m publish.Maintenance) (time.Time, error) {
		a.set(changed(a.status.Load(), func(st *fencingv1.Status) {
			st.Verdict.Reason, st.Watchdog.Armed = fencingv1.Reason_REASON_NETWORK_QUORUM, true
			if m.For > 0 {
				st.Verdict.Reason, st.Watchdog.Armed = fencingv1.Reason_REASON_MAINTENANCE, false
				st.Verdict.DisarmedBy = []string{"maintenance until " + noon.UTC().Format(time.RFC3339) + " (alice: firmware)"}
				return
			}
		}))
		if m.For == 0 {
			return time.Time{}, nil
		}
		return noon, nil
	})
	code, stdout, stderr := ask(t, a, 0, "maintenance", "on", "--for", "2h", "--reason", "firmware", "--by", "alice", "--wait")
	if code != exitOK || !strings.HasPrefix(stdout, "maintenance until 2026-03-01 ") || *got != (publish.Maintenance{For: 2 * time.Hour, By: "alice", Reason: "firmware"}) {
		t.Errorf("exit %d, %q, %q, got %+v", code, stdout, stderr, *got)
	}
	// The node is already under maintenance: the command waits for the new end.
	longer := noon.Add(time.Hour)
	takesMaintenance(a, func(publish.Maintenance) (time.Time, error) { return longer, nil })
	code, stdout, stderr = ask(t, a, 0, "maintenance", "on", "--for", "3h", "--reason", "firmware", "--wait", "--timeout", "300ms")
	if code != exitTimeout || stdout != "" {
		t.Errorf("exit %d before the new end is in force, %q, %q", code, stdout, stderr)
	}
	code, stdout, stderr = ask(t, a, 0, "maintenance", "on", "--for", "3h", "--reason", "firmware")
	if code != exitOK || strings.Contains(stdout, "nothing resets this node until then") {
		t.Errorf("exit %d, %q, %q: that is not so yet", code, stdout, stderr)
	}
	got = takesMaintenance(a, func(publish.Maintenance) (time.Time, error) {
		a.set(changed(a.status.Load(), func(st *fencingv1.Status) {
			st.Verdict.Reason, st.Watchdog.Armed = fencingv1.Reason_REASON_NETWORK_QUORUM, true
		}))
		return time.Time{}, nil
	})
	code, stdout, stderr = ask(t, a, 0, "maintenance", "off", "--by", "bob", "--wait")
	if code != exitOK || !strings.HasPrefix(stdout, "maintenance is off") || *got != (publish.Maintenance{By: "bob"}) {
		t.Errorf("exit %d, %q, %q, got %+v", code, stdout, stderr, *got)
	}
}

func TestMaintenanceRefuses(t *testing.T) {
	a := liveAgent(t, "healthy")
	var fails error
	takesMaintenance(a, func(publish.Maintenance) (time.Time, error) { return noon, fails })
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "--for must be more than 0: name a duration, such as --for 2h", []string{"on", "--reason", "x"}},
		{exitUsage, "--reason is missing: name a reason", []string{"on", "--for", "2h"}},
		{exitFailed, "more than 0 and at most 168h0m0s", []string{"on", "--for", "169h", "--reason", "x"}},
		{exitFailed, "reason must be printable ASCII, of at most 256 characters", []string{"on", "--for", "1h", "--reason", "\x1b[2J"}},
		{exitTimeout, "the watchdog has not changed within 300ms: n1: ", []string{"on", "--for", "1h", "--reason", "x", "--wait", "--timeout", "300ms"}},
	} {
		if code, stdout, stderr := ask(t, a, 0, append([]string{"maintenance"}, c.args...)...); code != c.code || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit %d, %q, %q", c.args, code, stdout, stderr)
		}
	}
	fails = errors.New("the disk is full")
	if code, _, stderr := ask(t, a, 0, "maintenance", "off"); code != exitFailed || !strings.Contains(stderr, "the disk is full") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}
