package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

// These are the boots of the node n3 in these tests.
const (
	bootA = "00000000000000a1"
	bootB = "00000000000000b1"
)

// waiting is one call of WaitFenced.
type waiting struct {
	cancel context.CancelCauseFunc
	done   chan struct{}

	mu    sync.Mutex
	whys  []error // the reasons for the wait, in order; a repeated reason is recorded once
	death ProvenDeath
	err   error
}

var errTooLong = errors.New("it took too long")

func waitFor(t *testing.T, a *agent, node, boot string) *waiting {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	w := &waiting{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		death, err := WaitFenced(ctx, Config{Dial: a.dial}, node, boot, func(_ StatusUpdate, why error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.whys) == 0 || w.whys[len(w.whys)-1] != why {
				w.whys = append(w.whys, why)
			}
		})
		w.mu.Lock()
		defer w.mu.Unlock()
		w.death, w.err = death, err
	}()
	t.Cleanup(func() { cancel(nil); <-w.done })
	return w
}

// waits fails the test unless the wait goes on, for this reason.
func (w *waiting) waits(t *testing.T, when string, why error) {
	t.Helper()
	time.Sleep(7 * time.Second) // in the bubble's time; the status is repeated meanwhile
	synctest.Wait()
	select {
	case <-w.done:
		t.Fatalf("%s: the wait ended with %+v, %v", when, w.death, w.err)
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.whys) == 0 || !errors.Is(w.whys[len(w.whys)-1], why) {
		t.Fatalf("%s: the wait was told %v, want at last: %v", when, w.whys, why)
	}
}

// ends fails the test unless the wait has ended with this death.
func (w *waiting) ends(t *testing.T, when, boot, runs string) {
	t.Helper()
	time.Sleep(7 * time.Second)
	synctest.Wait()
	select {
	case <-w.done:
	default:
		t.Fatalf("%s: the wait goes on: %v", when, w.whys)
	}
	if w.err != nil || w.death.Node != "n3" || w.death.Boot != boot || w.death.Runs != runs || w.death.Proof == 0 {
		t.Fatalf("%s: the wait ended with %+v, %v; want boot %s, runs %q", when, w.death, w.err, boot, runs)
	}
}

// refused cancels the wait, and fails the test unless the error names the cause and the reason for the wait.
func (w *waiting) refused(t *testing.T, why error) {
	t.Helper()
	w.cancel(errTooLong)
	<-w.done
	if !errors.Is(w.err, errTooLong) || !errors.Is(w.err, why) || w.death != (ProvenDeath{}) {
		t.Fatalf("given up: %+v, %v; want an error of %v and %v", w.death, w.err, errTooLong, why)
	}
}

// lost makes the agent report that a node does not answer.
func lost(state fencingv1.NodeState) func(*fencingv1.Status) {
	return func(st *fencingv1.Status) {
		st.Nodes[2].State, st.Nodes[2].Reachable, st.Nodes[2].LeftReason = state, false, "unreachable"
	}
}

// runsWith starts an agent that reports n3 as running under boot A.
func runsWith(t *testing.T, change ...func(*fencingv1.Status)) (*agent, *scene) {
	a, s := newAgent(t), newScene()
	s.change(back(2, bootA, true))
	for _, c := range change {
		s.change(c)
	}
	a.status = s.status
	a.start()
	return a, s
}

// Guards: what WaitFenced must not take for a death. Each row is a report of the agent that permits nothing.
func TestWhatIsNoDeath(t *testing.T) {
	death := func(boot string, proof fencingv1.Proof) func(*fencingv1.Status) {
		return func(st *fencingv1.Status) {
			st.Nodes[2].Death = &fencingv1.Death{Proof: proof, BootNonce: boot, Time: timestamppb.Now()}
		}
	}
	verdict := func(v *fencingv1.Verdict) func(*fencingv1.Status) {
		return func(st *fencingv1.Status) { st.Verdict = v }
	}
	const feed, starve = fencingv1.Permission_PERMISSION_FEED, fencingv1.Permission_PERMISSION_STARVE
	noToken := func(st *fencingv1.Status) { st.Nodes[2].Token = &fencingv1.Token{BootNonce: "0000000000000000"} }
	type words []func(*fencingv1.Status)
	others := map[string]string{ // each describes a death, but not the one that was asked for
		"an earlier boot is dead, and it answers":        "+n3/" + bootB + ">" + bootA,
		"an earlier boot is dead, and it was lost again": "+n3/" + bootB,
		"fenced, another boot":                           "+n3/" + bootA,
		"two names begin alike":                          "+n30/" + bootA,
		"one name is the beginning":                      "+n/" + bootA,
	}
	for _, c := range []struct {
		name  string
		boot  string
		words words
		why   error
	}{
		{"it answers", "", nil, ErrAnswers},
		{"LEFT", "", words{lost(fencingv1.NodeState_NODE_STATE_UNREACHABLE)}, ErrNotProven},
		{"LEFT, of that boot", bootA, words{lost(fencingv1.NodeState_NODE_STATE_UNREACHABLE)}, ErrNotProven},
		{"its agent was stopped", "", words{lost(fencingv1.NodeState_NODE_STATE_STOPPED)}, ErrNotProven},
		{"its agent is restarted", bootA, words{lost(fencingv1.NodeState_NODE_STATE_RESTARTING)}, ErrNotProven},
		{"never seen", "", words{lost(fencingv1.NodeState_NODE_STATE_UNKNOWN)}, ErrNotProven},
		{"a state of a later version", "", words{lost(99)}, ErrNotProven},
		{"a sentence is a forecast", bootA, words{lost(fencingv1.NodeState_NODE_STATE_UNREACHABLE), func(st *fencingv1.Status) {
			st.Nodes[2].Sentence = &fencingv1.Sentence{BootNonce: bootA}
		}}, ErrNotProven},
		{"an earlier boot is dead, and it answers", "", words{fence(2, bootB), back(2, bootA, true)}, ErrAnswers},
		{"an earlier boot is dead, and it was lost again", "", words{fence(2, bootB), lost(fencingv1.NodeState_NODE_STATE_UNREACHABLE)}, ErrNotProven},
		{"fenced, another boot", bootB, words{fence(2, bootA)}, ErrOtherBoot},
		{"back under another boot, whose predecessor is not known", bootB, nil, ErrOtherBoot},
		{"lost under another boot", bootB, words{lost(fencingv1.NodeState_NODE_STATE_UNREACHABLE)}, ErrOtherBoot},
		{"that boot answers", bootA, words{death(bootA, fencingv1.Proof_PROOF_TIME)}, ErrAnswers},
		{"a node answers, and does not say which boot", bootA, words{death(bootA, fencingv1.Proof_PROOF_TIME), func(st *fencingv1.Status) { st.Nodes[2].Token = nil }}, ErrAnswers},
		{"it answers, and has no token yet", bootA, words{noToken}, ErrAnswers},
		{"it answers, has no token yet, and an agent calls it dead", bootA, words{death(bootA, fencingv1.Proof_PROOF_TIME), noToken}, ErrAnswers},
		{"LEFT before it had a token", bootA, words{noToken, lost(fencingv1.NodeState_NODE_STATE_UNREACHABLE)}, ErrNotProven},
		{"contradicted, and lost again before it had a token", bootA, words{death(bootA, fencingv1.Proof_PROOF_TIME), noToken, lost(fencingv1.NodeState_NODE_STATE_UNREACHABLE)}, ErrNotProven},
		{"an older agent without proofs", "", words{fence(2, bootA), func(st *fencingv1.Status) { st.Nodes[2].Death = nil }}, ErrNoProof},
		{"the same, of that boot", bootA, words{fence(2, bootA), func(st *fencingv1.Status) { st.Nodes[2].Death = nil }}, ErrNoProof},
		{"an agent that never met the node", "", words{fence(2, "")}, ErrNoProof},
		{"a death without a proof", "", words{fence(2, bootA), death(bootA, fencingv1.Proof_PROOF_UNSPECIFIED)}, ErrNoProof},
		{"contradicted, and lost again", bootA, words{death(bootA, fencingv1.Proof_PROOF_TIME), lost(fencingv1.NodeState_NODE_STATE_UNREACHABLE)}, ErrNotProven},
		{"contradicted, and restarted", bootA, words{death(bootA, fencingv1.Proof_PROOF_BOOT), lost(fencingv1.NodeState_NODE_STATE_RESTARTING)}, ErrNotProven},
		{"without quorum", "", words{fence(2, bootA), verdict(&fencingv1.Verdict{Permission: feed})}, ErrNoQuorum},
		{"starved", "", words{fence(2, bootA), verdict(&fencingv1.Verdict{Permission: starve, Quorum: true})}, ErrNoQuorum},
		{"expired", "", words{fence(2, bootA), verdict(&fencingv1.Verdict{Permission: feed, Quorum: true, Expired: true})}, ErrNoQuorum},
		{"without a verdict", "", words{fence(2, bootA), verdict(nil)}, ErrNoQuorum},
		{"without a list", "", words{func(st *fencingv1.Status) { st.Nodes = nil }}, ErrNoWord},
		{"two names begin alike", "", words{fence(1, bootA), func(st *fencingv1.Status) { st.Nodes[1].Name = "n30" }}, ErrAnswers},
		{"one name is the beginning", "", words{fence(1, bootA), func(st *fencingv1.Status) { st.Nodes[1].Name = "n" }}, ErrAnswers},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, _ := runsWith(t, c.words...)
				var told []string
				followDeaths(t, a, &told)
				w := waitFor(t, a, "n3", c.boot)
				w.waits(t, c.name, c.why)
				w.refused(t, c.why)
				if got := strings.Join(told, " "); got != others[c.name] {
					t.Errorf("FollowDeaths told %q, want %q", got, others[c.name])
				}
			})
		})
	}
}

// Guard: an old status decides nothing, and neither does one from a clock that is far ahead of this one: its age is
// unknown.
func TestAgeOfAStatus(t *testing.T) {
	now := time.Now()
	for age, want := range map[time.Duration]error{0: nil, 4 * time.Second: nil, -4 * time.Second: nil, 6 * time.Second: ErrStandsStill, -time.Hour: ErrStandsStill} {
		u := StatusUpdate{InForce: true, Status: &fencingv1.Status{
			Time:    timestamppb.New(now.Add(-age)),
			Verdict: &fencingv1.Verdict{Permission: fencingv1.Permission_PERMISSION_FEED, Quorum: true},
		}}
		if got := usable(&u, now); !errors.Is(got, want) {
			t.Errorf("%v old: %v, want %v", age, got, want)
		}
	}
}

// followDeaths records what FollowDeaths reports. The record is read after synctest.Wait.
func followDeaths(t *testing.T, a *agent, told *[]string, before ...NodeDeath) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- FollowDeaths(ctx, Config{Dial: a.dial, Told: before}, func(n DeathNews) {
			for _, d := range n.Withdrawn {
				*told = append(*told, "-"+d.Node+"/"+d.Boot)
			}
			for _, d := range n.Proven {
				*told = append(*told, strings.TrimSuffix("+"+d.Node+"/"+d.Boot+">"+d.Runs, ">"))
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("FollowDeaths: %v", err)
		}
	})
}

// Guards: a wait ends with the death that was asked for, and with the state of the node at that moment.
func TestWhatIsADeath(t *testing.T) {
	for _, c := range []struct {
		name, boot string
		words      []func(*fencingv1.Status)
		runs       string
	}{
		{"fenced", "", []func(*fencingv1.Status){fence(2, bootA)}, ""},
		{"fenced, that boot", bootA, []func(*fencingv1.Status){fence(2, bootA)}, ""},
		{"back under another boot", bootA, []func(*fencingv1.Status){fence(2, bootA), back(2, bootB, true)}, bootB},
		{"lost again under another boot", bootA, []func(*fencingv1.Status){fence(2, bootA), back(2, bootB, true), lost(fencingv1.NodeState_NODE_STATE_UNREACHABLE)}, ""},
		{"in maintenance here", "", []func(*fencingv1.Status){fence(2, bootA), func(st *fencingv1.Status) {
			st.Verdict.Permission = fencingv1.Permission_PERMISSION_DISARM
		}}, ""},
		{"a proof of a later version", "", []func(*fencingv1.Status){fence(2, bootA), func(st *fencingv1.Status) { st.Nodes[2].Death.Proof = 99 }}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, s := runsWith(t)
				w := waitFor(t, a, "n3", c.boot)
				w.waits(t, "before", ErrAnswers)
				s.mu.Lock() // so that one status has all of these changes
				for _, change := range c.words {
					change(s.st)
				}
				s.mu.Unlock()
				w.ends(t, c.name, bootA, c.runs)
			})
		})
	}
}

// Guards: there is no agent; the agent stands still with its socket open, or repeats an old status; its stream ends; it
// is restarted. The wait outlasts all of these, and takes none of them for a death.
func TestAWaitOutlivesTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := runsWith(t)
		w, of := waitFor(t, a, "n3", ""), waitFor(t, a, "n3", bootA)
		w.waits(t, "at first", ErrAnswers)
		s.change(func(st *fencingv1.Status) { st.Verdict.Quorum = false })
		s.change(fence(2, bootA))
		w.waits(t, "without quorum", ErrNoQuorum)
		a.stop()
		s.change(func(st *fencingv1.Status) { st.Verdict.Quorum = true })
		w.waits(t, "the agent is gone", ErrNoWord)
		s.change(func(st *fencingv1.Status) { // the next agent has forgotten the death
			s.began = time.Now()
			st.Nodes[2].Death, st.Nodes[2].State = nil, fencingv1.NodeState_NODE_STATE_UNKNOWN
		})
		a.start()
		w.waits(t, "another agent", ErrNotProven)
		a.freeze()
		s.change(fence(2, bootA))
		w.waits(t, "it is frozen", ErrNotProven)
		time.Sleep(DefaultHold)
		w.waits(t, "for long", ErrNoWord)
		s.change(func(*fencingv1.Status) { s.halted = time.Now().Add(-time.Minute) })
		a.thaw()
		w.waits(t, "its loop stands still", ErrStandsStill)
		s.change(func(*fencingv1.Status) { s.halted = time.Time{} })
		w.ends(t, "it goes on", bootA, "")
		of.ends(t, "the same, of the boot", bootA, "")
	})
}

// Guards: a mistake of the caller is reported at once.
func TestWaitsThatCannotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := runsWith(t, func(st *fencingv1.Status) { st.Verdict.Quorum = false })
		unknown := new(UnknownNodeError)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // in the bubble's time
		defer cancel()
		if _, err := WaitFenced(ctx, Config{Dial: a.dial}, "n", "", nil); !errors.As(err, &unknown) || fmt.Sprint(unknown.Members) != "[n1 n2 n3]" {
			t.Errorf("an unknown node: %v", err)
		}
		if _, err := WaitFenced(ctx, Config{Dial: a.dial}, "n1", "", nil); !errors.Is(err, ErrOwnNode) {
			t.Errorf("the agent's own node: %v", err)
		}
		for _, boot := range []string{"a1", strings.ToUpper(bootA), bootA + "0", "00000000000000g1"} {
			if _, err := WaitFenced(ctx, Config{Dial: a.dial}, "n3", boot, nil); err == nil || !strings.Contains(err.Error(), "the boot is \""+boot) {
				t.Errorf("boot %s: %v", boot, err)
			}
		}
		if _, err := WaitFenced(ctx, Config{Hold: time.Second}, "n3", "", nil); err == nil {
			t.Error("a hold time that is too short is taken")
		}
		if FollowDeaths(t.Context(), Config{}, nil) == nil || FollowDeaths(t.Context(), Config{Socket: "x"}, func(DeathNews) {}) == nil {
			t.Error("FollowDeaths takes what cannot work")
		}
	})
	synctest.Test(t, func(t *testing.T) { // the group is smaller now
		a, s := runsWith(t)
		w := waitFor(t, a, "n3", "")
		w.waits(t, "at first", ErrAnswers)
		s.change(func(st *fencingv1.Status) { st.Nodes = st.Nodes[:2] })
		<-w.done
		if !errors.As(w.err, new(*UnknownNodeError)) {
			t.Errorf("a node that was removed: %v", w.err)
		}
	})
}

// Guards: the death of each boot is reported once, when there is quorum. It is withdrawn if it was not a death, also
// after another death has been reported, and also by another agent.
func TestDeathsThatMayBeActedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := runsWith(t)
		var told []string
		followDeaths(t, a, &told)
		expect := func(when string, want ...string) {
			t.Helper()
			time.Sleep(7 * time.Second)
			synctest.Wait()
			if fmt.Sprint(told) != fmt.Sprint(want) {
				t.Errorf("%s: told %v, want %v", when, told, want)
			}
			told = nil
		}
		s.change(func(st *fencingv1.Status) { st.Verdict.Quorum = false })
		s.change(fence(2, bootA))
		s.change(fence(1, "00000000000000c1"))
		expect("without quorum")
		s.change(back(1, "00000000000000c1", false))
		s.change(func(st *fencingv1.Status) { st.Verdict.Quorum = true })
		expect("with quorum, and one was withdrawn before it was told", "+n3/"+bootA)
		s.change(func(st *fencingv1.Status) { s.began, st.Nodes[2].Death, st.Nodes[2].State = time.Now(), nil, 1 })
		a.start()
		expect("an agent that has forgotten")
		s.change(fence(2, bootA))
		expect("and knows it again")
		s.change(back(2, bootB, true))
		expect("back under another boot")
		s.change(fence(2, bootB))
		expect("fenced again", "+n3/"+bootB)
		s.change(func(st *fencingv1.Status) { st.Verdict.Quorum = false })
		s.change(back(2, bootA, true))
		expect("the first boot answers, and there is no quorum", "-n3/"+bootA)
		s.change(func(st *fencingv1.Status) { st.Nodes[2].Death = nil })
		expect("and the second death is taken back", "-n3/"+bootB)
		s.change(func(st *fencingv1.Status) { st.Verdict.Quorum = true })
		s.change(fence(2, bootA))
		expect("it is true at last", "+n3/"+bootA)
		s.change(func(st *fencingv1.Status) { st.Nodes = st.Nodes[:2] })
		expect("it is not a member any more")
		s.change(func(st *fencingv1.Status) {
			st.Nodes = append(st.Nodes, &fencingv1.NodeStatus{Name: "n3", Reachable: true, Token: &fencingv1.Token{BootNonce: bootB},
				Death: &fencingv1.Death{Proof: fencingv1.Proof_PROOF_BOOT, BootNonce: bootA}})
		})
		expect("reset before anybody proved it, as another member", "+n3/"+bootA+">"+bootB)
	})
}
