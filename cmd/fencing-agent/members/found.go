package members

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/k8s/client"
	"github.com/fencing-agent/fencing-agent/k8s/deaths"
)

const (
	mostLives    = 1024             // most withdrawn deaths that are remembered
	foundAnswer  = 25 * time.Second // more than the agent takes to decide
	foundFirst   = time.Second      // between the first two attempts
	foundLongest = 30 * time.Second
	foundLook    = time.Second     // between two looks at what the controller says
	foundAgain   = 5 * time.Second // between two times that the agent is told of a withdrawal
)

// Finds passes the controller's findings to the agent, until the agent believes them or the controller no longer
// reports them. The agent checks each finding as if root on its node had reported it: the controller is a single
// source, and may be wrong.
type Finds struct {
	tellAgent func(context.Context, *deaths.Death) error
	log       *slog.Logger
	wake      boottime.Wake

	mu   sync.Mutex
	want []deaths.Death // guarded by mu
}

// NewFinds creates a Finds. tell blocks until the agent has decided; its error says why the agent does not believe it.
func NewFinds(tell func(context.Context, *deaths.Death) error, log *slog.Logger) *Finds {
	return &Finds{tellAgent: tell, log: log, wake: boottime.NewWake()}
}

// Want records all present findings of the controller. It does not block.
func (f *Finds) Want(all []deaths.Death) {
	f.mu.Lock()
	f.want = all
	f.mu.Unlock()
	f.wake.Signal()
}

// telling is a death that is being reported, or was reported.
type telling struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Run works until ctx ends.
//
// Invariant: once the replacement of a finding is passed on, the old finding no longer is. Otherwise a death could
// reach the agent after its withdrawal, and stay. And however often findings change, the agent looks at them once a
// second: each reported death wakes its loop.
func (f *Finds) Run(ctx context.Context) {
	told, lives := map[deaths.Death]telling{}, map[deaths.Death]bool{}
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		want := f.wanted(lives)
		stands := map[deaths.Death]bool{}
		for i := range want {
			stands[which(&want[i])] = true
		}
		var ending []telling
		for k, t := range told {
			if !stands[k] {
				t.cancel()
				delete(told, k)
				ending = append(ending, t)
			}
		}
		for _, t := range ending {
			<-t.done
		}
		for i := range want {
			d := want[i]
			if _, there := told[which(&d)]; !there {
				each, cancel := context.WithCancel(ctx)
				t := telling{cancel, make(chan struct{})}
				told[which(&d)] = t
				wg.Go(func() {
					defer close(t.done)
					f.insist(each, &d)
				})
			}
		}
		boottime.Wait(ctx, foundLook)
		select {
		case <-f.wake:
		case <-ctx.Done():
			return // the end of ctx also ends what is being passed on
		}
	}
}

// wanted is what has to be passed on now.
//
// Invariant: a withdrawn death is not passed on: either a replica that is behind reports it, or devices were wrong
// about this boot.
func (f *Finds) wanted(lives map[deaths.Death]bool) (out []deaths.Death) {
	f.mu.Lock()
	want := f.want
	f.mu.Unlock()
	for i := range want {
		if want[i].Contradicted && len(lives) < mostLives {
			lives[which(&want[i])] = true
		}
	}
	for i := range want {
		if back := (deaths.Death{Node: want[i].Node, Boot: want[i].Boot, Contradicted: true}); want[i].Contradicted || !lives[back] {
			out = append(out, want[i])
		}
	}
	return out
}

// which identifies a death, however often and by whatever means it is found.
func which(d *deaths.Death) deaths.Death {
	return deaths.Death{Node: d.Node, Boot: d.Boot, Contradicted: d.Contradicted}
}

// insist reports one death again and again: the first objections, such as that the node was heard a moment ago,
// disappear with time. A withdrawal is passed on for as long as the controller reports it.
//
// Invariant: an agent that follows the controller believes a death that the controller has withdrawn only until the
// next report of the withdrawal. A member that does not follow the controller now may have passed that death on.
func (f *Finds) insist(ctx context.Context, d *deaths.Death) {
	log := f.log.With("peer", d.Node, "boot", d.Boot, "proof", d.Proof, "reference", d.Reference, "found", d.At.UTC())
	backoff := client.Backoff{First: foundFirst, Most: foundLongest}
	said := ""
	for {
		err := f.tell(ctx, d)
		switch {
		case ctx.Err() != nil:
			return
		case d.Contradicted:
			if said == "" {
				said = "taken back"
				log.Warn("the controller withdrew its external confirmation of a death: it heard from that boot later")
			}
			if boottime.Wait(ctx, foundAgain); ctx.Err() != nil {
				return
			}
			continue
		case err == nil:
			log.Warn("accepted the controller's external confirmation that a node is dead")
			return
		case err.Error() != said:
			said = err.Error()
			log.Warn("the controller's external confirmation that a node is dead is not accepted yet", "error", err)
		}
		if boottime.Wait(ctx, backoff.Next(nil)); ctx.Err() != nil {
			return
		}
	}
}

func (f *Finds) tell(ctx context.Context, d *deaths.Death) error {
	ctx, cancel := context.WithTimeout(ctx, foundAnswer)
	defer cancel()
	return f.tellAgent(ctx, d)
}
