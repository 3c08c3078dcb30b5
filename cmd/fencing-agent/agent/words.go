package agent

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/fencing-agent/fencing-agent/api/publish"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/api/words"
	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/picture"
	deathlist "github.com/fencing-agent/fencing-agent/k8s/deaths"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// word is a death that a program or person on this node reports, on its way to the loop and back.
type word struct {
	publish.ToldDeath
	contradicted bool
	answer       chan wordAnswer // capacity 1
}

type wordAnswer struct {
	death *fencingv1.Death
	err   error
}

// note is who has reported the death of a boot.
type note struct {
	boot uint64
	picture.Note
}

// tell passes a death to the loop and waits for the result. Any goroutine may call it.
func (a *Agent) tell(ctx context.Context, d publish.ToldDeath) (*fencingv1.Death, error) {
	return a.bring(ctx, &word{ToldDeath: d})
}

// tellFound passes a death that the controller has found to the loop, as tell does.
func (a *Agent) tellFound(ctx context.Context, d *deathlist.Death) error {
	boot, err := strconv.ParseUint(d.Boot, 16, 64)
	if err != nil {
		return err
	}
	proof := watchdog.ProofPower
	if d.Proof == watchdog.ProofKdump.String() {
		proof = watchdog.ProofKdump
	}
	_, err = a.bring(ctx, &word{contradicted: d.Contradicted, ToldDeath: publish.ToldDeath{
		Node: d.Node, Boot: boot, Proof: fencingv1.Proof(proof), By: "fencing-controller", Reference: d.Reference, Time: d.At,
	}})
	return err
}

func (a *Agent) bring(ctx context.Context, w *word) (*fencingv1.Death, error) {
	w.answer = make(chan wordAnswer, 1)
	a.box.put(func(b *batch) { b.words = append(b.words, w) })
	select {
	case got := <-w.answer:
		return got.death, got.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// hearWords passes the reports to the core. It runs on the loop.
func (a *Agent) hearWords(words []*word) {
	for _, w := range words {
		if a.deaths.waiting == nil {
			a.deaths.waiting, a.deaths.notes = map[uint64]*word{}, map[string]note{}
		}
		a.deaths.last++
		a.deaths.waiting[a.deaths.last] = w
		a.core.Deaths().Tell(a.deaths.last, watchdog.Word{Node: w.Node, Death: watchdog.Death{Boot: w.Boot, Proof: watchdog.Proof(w.Proof)}, Contradicted: w.contradicted}) //nolint:gosec // the numbers are the same; others were refused
	}
}

// answerWords returns the answers.
func (a *Agent) answerWords(now boottime.Instant, fx *watchdog.Effects) {
	for i := range fx.Told {
		t := &fx.Told[i]
		w := a.deaths.waiting[t.ID]
		delete(a.deaths.waiting, t.ID)
		if w.contradicted { // it is a withdrawal, not a report
			w.answer <- wordAnswer{err: t.Err}
			continue
		}
		if t.Err != nil {
			a.metrics.Told(watchdog.Proof(w.Proof), t.Err.Why.String()) //nolint:gosec // as above
			w.answer <- wordAnswer{err: fmt.Errorf("%s: %w", words.Refusal(t.Err.Why.String()), t.Err)}
			continue
		}
		a.metrics.Told(t.Death.Proof, "believed")
		if _, known := a.deaths.notes[w.Node]; !known || a.deaths.notes[w.Node].boot != w.Boot {
			a.deaths.notes[w.Node] = note{w.Boot, picture.Note{By: w.By, Reference: w.Reference, Reason: w.Reason}}
		}
		f := picture.Facts{Now: now, Wall: time.Now()}
		w.answer <- wordAnswer{death: f.Death(t.Death, a.noteOf(w.Node, t.Death))}
	}
}

// noteOf is who reported a death, if it was reported to this agent.
func (a *Agent) noteOf(node string, d watchdog.Death) picture.Note {
	if n := a.deaths.notes[node]; n.boot == d.Boot && d.Teller == a.cfg.NodeName {
		return n.Note
	}
	return picture.Note{}
}
