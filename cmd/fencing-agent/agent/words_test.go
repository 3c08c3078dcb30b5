package agent

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/words"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/picture"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/roster"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// A reported death goes to the loop and comes back with its answer. Only the status of this agent names who reported
// it, and the outcome is counted.
func TestWordsGoToTheLoopAndBack(t *testing.T) {
	members := listing(t, "n1", "n2", "n3")
	reg := prometheus.NewRegistry()
	cfg := config.Default()
	cfg.NodeName = "n1"
	a := &Agent{
		cfg: cfg, roster: members, log: slog.New(slog.DiscardHandler), metrics: picture.NewMetrics(reg, cfg, "test"), box: newMailbox(1, members),
		core: watchdog.NewCore(watchdog.Config{Roster: members, Networks: 1, Policy: netgossip.Any(), MaxAge: 4 * time.Second, Outside: true}),
	}
	step := func(at time.Duration, seen roster.Set, peers ...int) {
		now := boottime.Instant(at)
		for _, p := range peers {
			a.core.Merger().Answered(netgossip.Answer{Peer: p, SentAt: now, Statement: &netgossip.Statement{
				Boot: uint64(10 + p), RosterEpoch: members.Epoch, RosterDigest: members.Digest, Seen: seen,
			}})
		}
		w := newBatch(1, 3)
		a.box.take(&w)
		a.hearWords(w.words)
		a.answerWords(now, a.core.Step(now))
	}
	ask := func(d publish.ToldDeath) chan wordAnswer {
		out := make(chan wordAnswer, 1)
		go func() {
			death, err := a.tell(t.Context(), d)
			out <- wordAnswer{death, err}
		}()
		<-a.box.wake
		return out
	}
	step(10*time.Second, roster.FullSet(3), 1, 2)
	for at := 11 * time.Second; at < 20*time.Second; at += time.Second {
		step(at, roster.SetOf(0, 1), 1)
	}
	told := publish.ToldDeath{Node: "n3", Boot: 12, Proof: fencingv1.Proof_PROOF_POWER, By: "alice", Reference: "job", Reason: "off"}
	wrong := told
	wrong.Boot = 13
	for i, d := range []publish.ToldDeath{wrong, told} {
		out := ask(d)
		for at := time.Duration(20+5*i) * time.Second; len(out) == 0 && at < time.Duration(25+5*i)*time.Second; at += time.Second / 2 {
			step(at, roster.SetOf(0, 1), 1)
		}
		got := <-out
		refused := new(watchdog.Refused)
		if i == 0 && (!errors.As(got.err, &refused) || refused.Why != watchdog.RefusedOtherBoot) {
			t.Errorf("another boot: %v", got.err)
		}
		if i == 1 && (got.err != nil || got.death.GetProof() != fencingv1.Proof_PROOF_POWER || got.death.GetBy() != "alice" || got.death.GetTeller() != "n1") {
			t.Errorf("%v, %v", got.death, got.err)
		}
	}
	if n := a.noteOf("n3", a.core.Deaths().Of(2)); n != (picture.Note{By: "alice", Reference: "job", Reason: "off"}) {
		t.Errorf("noted %+v", n)
	}
	if n := a.noteOf("n3", watchdog.Death{Boot: 12, Teller: "n2"}); n != (picture.Note{}) {
		t.Errorf("what another one was told: %+v", n)
	}
	if len(a.deaths.waiting) != 0 || counted(t, reg, "fencing_agent_told_deaths_total", "believed") != 1 {
		t.Errorf("waiting %v", a.deaths.waiting)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.tell(gone, told); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits any more: %v", err)
	}
}

// A user gets one of six answers, whatever the agent's reason is.
func TestRefusalsHaveAnAnswer(t *testing.T) {
	answers := map[string]bool{}
	for r := watchdog.RefusedOff; r <= watchdog.RefusedRestarts; r++ {
		answer := words.Refusal(r.String())
		if answers[answer] = true; answer == "" {
			t.Errorf("%s has no answer", r)
		}
	}
	if len(answers) != 6 {
		t.Errorf("%d answers", len(answers))
	}
}
