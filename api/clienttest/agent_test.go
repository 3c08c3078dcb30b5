package clienttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/api/client"
	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
)

const patience = 20 * time.Second

func await(t *testing.T, news <-chan client.DeathNews) client.DeathNews {
	t.Helper()
	select {
	case n := <-news:
		return n
	case <-time.After(patience):
		t.Fatal("no news")
		return client.DeathNews{}
	}
}

// With this agent, a program that follows deaths sees what it would see with a real one.
func TestFollowDeaths(t *testing.T) {
	a := Start(t, "n1", "n2", "n3")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	news := make(chan client.DeathNews, 16)
	done := make(chan error, 1)
	go func() {
		done <- client.FollowDeaths(ctx, client.Config{Socket: a.Socket}, func(n client.DeathNews) { news <- n })
	}()
	a.Leave("n3") // this proves no death
	a.Fence("n2", fencingv1.Proof_PROOF_SENTENCE)
	if n := await(t, news); len(n.Proven) != 1 || n.Proven[0].Node != "n2" || n.Proven[0].Boot != BootOf("n2", 0) || n.Proven[0].Proof != fencingv1.Proof_PROOF_SENTENCE {
		t.Errorf("%+v", n)
	}
	a.Restart() // what was reported is not reported again
	a.LoseQuorum()
	a.Fence("n3", fencingv1.Proof_PROOF_TIME) // a report without quorum is not acted on
	a.Join("n2")                              // another boot: the death remains valid
	a.RegainQuorum()
	if n := await(t, news); len(n.Proven) != 1 || n.Proven[0].Node != "n3" || len(n.Withdrawn) != 0 {
		t.Errorf("%+v", n)
	}
	a.Contradict("n3")
	if n := await(t, news); len(n.Withdrawn) != 1 || n.Withdrawn[0].Node != "n3" || len(n.Proven) != 0 {
		t.Errorf("%+v", n)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A report of an agent that stands still does not count, and a node that does not answer is not dead.
func TestWaitFenced(t *testing.T) {
	a := Start(t, "n1", "n2")
	a.Fence("n2", fencingv1.Proof_PROOF_TIME)
	a.Stall(time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, stood := client.WaitFenced(ctx, client.Config{Socket: a.Socket}, "n2", "", func(_ client.StatusUpdate, why error) {
		if errors.Is(why, client.ErrStandsStill) {
			cancel()
		}
	})
	if !errors.Is(stood, client.ErrStandsStill) {
		t.Errorf("%v", stood)
	}
	b := Start(t, "n1", "n2")
	b.Leave("n2")
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	d, err := client.WaitFenced(ctx, client.Config{Socket: b.Socket}, "n2", "", func(_ client.StatusUpdate, why error) {
		if errors.Is(why, client.ErrNotProven) {
			b.Fence("n2", fencingv1.Proof_PROOF_BOOT)
		}
	})
	if err != nil || d.Node != "n2" || d.Boot != BootOf("n2", 0) {
		t.Errorf("%+v, %v", d, err)
	}
}
