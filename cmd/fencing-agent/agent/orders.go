package agent

import (
	"context"

	"github.com/fencing-agent/fencing-agent/api/publish"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/history"
	"github.com/fencing-agent/fencing-agent/watchdog"
)

// order is a request from this node to end another node, on its way to the loop and back.
type order struct {
	publish.FenceOrder
	answer chan error // capacity 1
}

// orders are the orders that wait for the core's answer, by id.
type orders struct {
	waiting map[uint64]*order
	last    uint64
	by      string // who ordered this node to fence itself, as last logged
	why     watchdog.Refusal
}

// order passes an order to the loop and waits for the outcome. Any goroutine may call it.
func (a *Agent) order(ctx context.Context, o publish.FenceOrder) error {
	w := &order{FenceOrder: o, answer: make(chan error, 1)}
	a.box.put(func(b *batch) { b.orders = append(b.orders, w) })
	select {
	case err := <-w.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hearOrders passes orders to the core. It runs on the loop.
func (a *Agent) hearOrders(list []*order) {
	for _, w := range list {
		if a.deaths.orders.waiting == nil {
			a.deaths.orders.waiting = map[uint64]*order{}
		}
		a.deaths.orders.last++
		a.deaths.orders.waiting[a.deaths.orders.last] = w
		a.core.Deaths().Order(a.deaths.orders.last, watchdog.Word{Node: w.Node, Death: watchdog.Death{Boot: w.Boot}})
	}
}

// answerOrders returns the answers, and logs an order for this node.
func (a *Agent) answerOrders(fx *watchdog.Effects) {
	for _, o := range fx.Obeyed {
		w := a.deaths.orders.waiting[o.ID]
		delete(a.deaths.orders.waiting, o.ID)
		a.noteOrder(w, o.Err)
		if o.Err != nil {
			a.metrics.Ordered(o.Err.Why.String())
			w.answer <- o.Err
			continue
		}
		a.metrics.Ordered("obeyed")
		w.answer <- nil
	}
	by, why := a.core.Deaths().Ordered()
	if by == a.deaths.orders.by && why == a.deaths.orders.why || by == "" && a.core.CondemnedBy() != "" {
		return
	}
	a.deaths.orders.by, a.deaths.orders.why = by, why
	switch {
	case by == "":
	case why != 0:
		a.log.Warn("refused the fence order of another node", "by", by, "reason", why.String())
	default:
		a.log.Warn("another node ordered this one to fence itself; this node obeys when all others have said that they can spare it", "by", by)
	}
}

// noteOrder records an order from this node in the history. An order that was refused at once was never sent.
func (a *Agent) noteOrder(w *order, err *watchdog.Refused) {
	r := history.Record{Kind: history.Ordered, Nodes: []string{w.Node}, Text: "boot " + hex64(w.Boot) + ", by " + w.By}
	if w.Reason != "" {
		r.Text += ", reason: " + w.Reason
	}
	switch {
	case a.published.history.recorder == nil, err != nil && err.Why != watchdog.RefusedDisobeyed:
		return
	case err != nil:
		r.Action = history.ActionFailed
	}
	a.published.history.recorder.Note(r)
}

// mayTell decides who may report deaths and give orders.
func (a *Agent) mayTell() func(context.Context) error {
	switch {
	case a.opts.MayTell != nil:
		return a.opts.MayTell
	case a.cfg.API.Commands == config.CommandsAnywhere:
		return publish.RootOnly
	}
	return publish.RootHere
}
