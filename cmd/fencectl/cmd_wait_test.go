package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fencing-agent/fencing-agent/api/client"
	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// liveAgent serves a scene as if it happened now.
func liveAgent(t *testing.T, name string, change ...func(*fencingv1.Status)) *testAgent {
	t.Helper()
	a := startAgent(t, publish.HubConfig{})
	a.live.Store(true)
	a.set(changed(scene(t, name), change...))
	return a
}

func changed(st *fencingv1.Status, change ...func(*fencingv1.Status)) *fencingv1.Status {
	st = proto.CloneOf(st)
	for _, c := range change {
		c(st)
	}
	return st
}

// TestWaitFenced: for a node that is fenced, the command prints one line and ends with code 0. The JSON says the same.
func TestWaitFenced(t *testing.T) {
	a := liveAgent(t, "peer-fenced")
	d := nodeOf(a.status.Load(), "n4").GetDeath()
	boot := d.GetBootNonce()
	want := fmt.Sprintf("n4: FENCED - boot %s, proof time, since %s\n", boot, d.GetTime().AsTime().Format(time.DateTime))
	code, stdout, stderr := ask(t, a, 0, "wait", "--fenced", "n4")
	if code != exitOK || stdout != want || stderr != "" {
		t.Errorf("exit %d, stdout %q, stderr %q, want %q", code, stdout, stderr, want)
	}
	wantPlain(t, stdout, 100)
	code, stdout, _ = ask(t, a, 0, "wait", "n4", "--fenced", "--boot", boot, "-o", "json")
	var r deathResult
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != exitOK || r != (deathResult{Node: "n4", Boot: boot, Proof: "time", Since: d.GetTime().AsTime()}) {
		t.Errorf("exit %d, %v, %s", code, err, stdout)
	}

	a.set(changed(a.status.Load(), func(st *fencingv1.Status) {
		n := nodeOf(st, "n4")
		n.Reachable, n.State, n.Token.BootNonce = true, fencingv1.NodeState_NODE_STATE_REACHABLE, "00000000000000b1"
	}))
	code, stdout, _ = ask(t, a, 0, "wait", "--fenced", "n4", "--boot", boot)
	if code != exitOK || !strings.HasPrefix(stdout, "n4: boot "+boot+" is dead, proof time, since ") || !strings.HasSuffix(stdout, "; back as boot 00000000000000b1\n") {
		t.Errorf("back under another boot: exit %d, stdout %q", code, stdout)
	}
	// Without the boot, a node that is back is not fenced.
	code, stdout, stderr = ask(t, a, 0, "wait", "--fenced", "n4", "--timeout", "300ms")
	if code != exitTimeout || stdout != "" || !strings.HasPrefix(stderr, "fencectl: n4 is not proven dead after 300ms: ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("back: exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// TestWaitRefuses: a wait that cannot end has no code that could be taken for a death or for a timeout.
func TestWaitRefuses(t *testing.T) {
	a := liveAgent(t, "healthy")
	const boots = `flag: give the whole bootID of the Node in Kubernetes, or bootNonce as "fencectl status -o json" shows it`
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitFailed, `fencectl: "n" is not a member of this group: the members are n1, n2, n3, n4`, []string{"--fenced", "n"}},
		{exitFailed, `fencectl: "n10" is not a member of this group`, []string{"--fenced", "n10"}},
		{exitFailed, "an agent proves nothing about its own node", []string{"--fenced", "n1"}},
		{exitUsage, "say what to wait for: --fenced", []string{"n3"}},
		{exitUsage, "NODE is missing", []string{"--fenced"}},
		{exitUsage, "it must be more than 0", []string{"--fenced", "n3", "--timeout", "0"}},
		{exitUsage, `invalid argument "" for "--boot" flag: give the whole bootID`, []string{"--fenced", "n3", "--boot", ""}},
		{exitUsage, `invalid argument "1234" for "--boot" flag`, []string{"--fenced", "n3", "--boot", "1234"}},
		{exitUsage, `invalid argument "no-boot-id-of-anybody" for "--boot" flag`, []string{"--fenced", "n3", "--boot", "no-boot-id-of-anybody"}},
		{exitUsage, boots, []string{"--fenced", "n3", "--boot", "024bc581b3a34be2"}},      // no agent has an even boot
		{exitUsage, boots, []string{"--fenced", "n3", "--boot", "024bc581b3a34be39a"}},    // longer than a nonce
		{exitUsage, boots, []string{"--fenced", "n3", "--boot", "024bc581-b3a3-4be2-9a"}}, // a bootID that was cut short
		{exitUsage, boots, []string{"--fenced", "n3", "--boot", "024bc581-b3a3-4be2-9a0f-11223344556677"}},
		{exitUsage, "--help waits for nothing", []string{"--fenced", "-h"}}, // -h in place of the name of a node, by mistake
		{exitUsage, "--help waits for nothing", []string{"--help", "n3", "--fenced"}},
		{exitOK, "", []string{"--help"}},
		{exitFailed, "it does not exist", []string{"--fenced", "n3", "--socket", a.path + "x"}},
	} {
		help := slices.Contains(c.args, "-h") || slices.Contains(c.args, "--help")
		if code, stdout, stderr := ask(t, a, 0, append([]string{"wait", "--timeout", "1s"}, c.args...)...); code != c.code || (stdout != "") != help || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit %d, stdout %q, stderr %q; want %d, %s", c.args, code, stdout, stderr, c.code, c.says)
		}
	}
	_, stdout, _ := ask(t, a, 0, "__complete", "wait", "--fenced", "")
	if want := "n2\nn3\nn4\n"; !strings.HasPrefix(stdout, want) {
		t.Errorf("completion offers %q, want %q", stdout, want)
	}
}

// TestWaitTakesABootID: the command accepts a bootID of Kubernetes as the boot.
func TestWaitTakesABootID(t *testing.T) {
	for _, given := range []string{"024bc581-b3a3-4be2-9a0f-112233445566", "024bc581b3a34be29a0f112233445566", "024bc581b3a34be3"} {
		if boot := bootFlag(""); boot.Set(given) != nil || boot != "024bc581b3a34be3" {
			t.Errorf("%s: %s", given, boot)
		}
	}
}

// TestWaitSaysWhatItWaitsFor: the command writes to stderr what it waits for. It outlives its agent, and ends when the
// death is proven. Ctrl-C ends it with a failure.
func TestWaitSaysWhatItWaitsFor(t *testing.T) {
	a := liveAgent(t, "healthy")
	start := func(ctx context.Context) (_ *output, _ *strings.Builder, ended chan int) {
		errs, out := newOutput(), new(strings.Builder)
		ended = make(chan int, 1)
		env := &environment{name: "fencectl", stdin: strings.NewReader(""), stdout: out, stderr: errs,
			getenv: func(key string) string { return map[string]string{"TZ": "UTC", envSocket: a.path}[key] }}
		go func() { ended <- run(ctx, env, []string{"wait", "--fenced", "n4", "--timeout", "5m"}) }()
		return errs, out, ended
	}
	code := func(ended chan int) int {
		select {
		case code := <-ended:
			return code
		case <-time.After(patience):
			t.Fatal("the wait goes on")
			return 0
		}
	}
	has := func(what string) func(string) bool {
		return func(text string) bool { return strings.Contains(text, what) }
	}
	errs, out, ended := start(t.Context())
	errs.until(t, "the first word", has("fencectl: waiting: n4: reachable: it runs\n"))
	a.set(scene(t, "peer-dead"))
	errs.until(t, "a node that is lost", has("fencectl: waiting: n4: UNREACHABLE for "))
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	a.stop(stopped)
	errs.until(t, "an agent that is gone", has("trying again\n"))
	b := startAgentAt(t, a.path, publish.HubConfig{})
	b.live.Store(true)
	b.set(scene(t, "peer-fenced"))
	if got := code(ended); got != exitOK || !strings.HasPrefix(out.String(), "n4: FENCED - boot ") {
		t.Errorf("exit %d, stdout %q, stderr %q", got, out, errs)
	}

	b.set(scene(t, "healthy"))
	ctx, interrupt := context.WithCancel(t.Context())
	errs, out, ended = start(ctx)
	errs.until(t, "the first word", has("waiting: "))
	interrupt()
	if got := code(ended); got != exitFailed || out.String() != "" {
		t.Errorf("interrupted: exit %d, stdout %q, stderr %q", got, out, errs)
	}
}

// TestWaitWords: testdata/status/wait.golden holds, for each scene, what is missing for a death.
func TestWaitWords(t *testing.T) {
	other := "00000000000000a1"
	noProof := func(st *fencingv1.Status) { nodeOf(st, "n4").Death = nil }
	noToken := func(st *fencingv1.Status) { nodeOf(st, "n4").Token.BootNonce = "0000000000000000" }
	unarmed := func(st *fencingv1.Status) { nodeOf(st, "n4").ProvenIn = nil }
	var all strings.Builder
	for _, c := range []struct {
		scene, node, boot string
		change            []func(*fencingv1.Status)
	}{
		{scene: "healthy", node: "n4"},
		{scene: "healthy", node: "n4", boot: other},
		{scene: "peer-dead", node: "n4"},
		{scene: "peer-dead", node: "n4", change: []func(*fencingv1.Status){unarmed}},
		{scene: "peer-condemned", node: "n4"},
		{scene: "peer-condemned", node: "n4", boot: other, change: []func(*fencingv1.Status){noToken}},
		{scene: "peer-fenced", node: "n4", boot: other},
		{scene: "peer-fenced", node: "n4", change: []func(*fencingv1.Status){noProof}},
		{scene: "peer-upgrade", node: "n4"},
		{scene: "split-lost", node: "n1"},
		{scene: "split-pending", node: "n4"},
		{scene: "starting", node: "n4"},
	} {
		a := liveAgent(t, c.scene, c.change...)
		w := &deathWait{env: &environment{name: "fencectl"}, node: c.node, boot: c.boot}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := client.WaitFenced(ctx, client.Config{Socket: a.path}, c.node, c.boot, func(u client.StatusUpdate, why error) {
			if ctx.Err() == nil {
				w.last, w.why = u, why
				cancel()
			}
		})
		cancel()
		if err == nil || w.why == nil {
			t.Errorf("%+v: %v, %v", c, w.why, err)
		}
		fmt.Fprintf(&all, "%s: %s\n", c.scene, w.missing())
	}
	compareGolden(t, filepath.Join("testdata", "status", "wait.golden"), all.String())
}

// stuckWriter blocks as a full pipe does.
type stuckWriter struct{ entered, never chan struct{} }

func (s stuckWriter) Write(p []byte) (int, error) {
	select {
	case s.entered <- struct{}{}:
	default:
	}
	<-s.never
	return len(p), nil
}

// TestWaitDoesNotWaitForStderr: a death is printed and a failure ends the wait, even if no program reads stderr.
func TestWaitDoesNotWaitForStderr(t *testing.T) {
	a := liveAgent(t, "healthy")
	for want, end := range map[int]func(interrupt func()){
		exitOK:     func(func()) { a.set(scene(t, "peer-fenced")) },
		exitFailed: func(interrupt func()) { interrupt() },
	} {
		a.set(scene(t, "healthy"))
		errs, out := stuckWriter{make(chan struct{}, 1), make(chan struct{})}, newOutput()
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan int, 1)
		env := &environment{name: "fencectl", stdin: strings.NewReader(""), stdout: out, stderr: errs,
			getenv: func(key string) string { return map[string]string{"TZ": "UTC", envSocket: a.path}[key] }}
		go func() { ended <- run(ctx, env, []string{"wait", "--fenced", "n4", "--timeout", "5m"}) }()
		select {
		case <-errs.entered:
		case <-time.After(patience):
			t.Fatal("nothing is said")
		}
		end(interrupt)
		select {
		case got := <-ended:
			if got != want || strings.HasPrefix(out.String(), "n4: FENCED - boot ") != (want == exitOK) {
				t.Errorf("exit %d, want %d; stdout %q", got, want, out)
			}
		case <-time.After(patience):
			t.Errorf("the wait that must end with %d hangs, stdout %q", want, out)
		}
		interrupt()
		close(errs.never)
	}
}
