package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/integration/lab"
)

// cluster is the cluster under test, with the code that makes and ends each fault.
type cluster struct {
	*lab.Agents
	lun    *freezer
	resets *resets
	undo   []func() // in reverse, by close
}

// newCluster starts the agents, with a gossip key or without. close removes everything that it created.
func newCluster(ctx context.Context, dir string, o Options, key bool) (_ *cluster, err error) {
	c := &cluster{lun: &freezer{}}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	c.undo = append(c.undo, c.lun.close)
	stage := lab.Stage{Bin: o.Bin, Nodes: o.Nodes, Show: c.lun.show, Launch: o.Boot, Override: map[string]any{}}
	if key {
		path, err := writeKey(dir)
		if err != nil {
			return nil, err
		}
		stage.Override["gossip"] = map[string]any{"keyFile": path}
	}
	var launcher []string
	if o.Armed {
		stage.Override["watchdog"] = map[string]any{"driver": "device"}
		launcher = append([]string{"/proc/self/exe"}, o.Agent...)
	}
	if c.Agents, err = stage.Build(ctx, dir); err != nil {
		return nil, err
	}
	c.undo = append(c.undo, func() { _ = c.Close() }) // Close never fails
	if c.resets, err = newResets(c.Agents, launcher); err != nil {
		return nil, err
	}
	c.undo = append(c.undo, c.resets.close)
	for _, node := range c.Nodes() {
		if err := c.start(node); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *cluster) close() {
	for _, undo := range slices.Backward(c.undo) {
		undo()
	}
	c.undo = nil
}

// disturb makes the faults of a round, keeps each for its time and ends it. It returns when all have ended. The end of
// ctx ends them early.
func (c *cluster) disturb(ctx context.Context, r Round) error {
	defer c.resets.faults()()
	var wg sync.WaitGroup
	errs := make([]error, len(r.Faults))
	for i, f := range r.Faults {
		wg.Go(func() {
			if err := c.fault(ctx, f); err != nil {
				errs[i] = fmt.Errorf("%v: %w", f, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(append(errs, c.Lab().Heal())...)
}

func (c *cluster) fault(ctx context.Context, f Fault) error {
	group := make([]string, len(f.Nodes))
	for i, n := range f.Nodes {
		group[i] = nodeName(n)
	}
	during := func() { boottime.Wait(ctx, f.For) }
	switch f.Kind {
	case Partition, OneNetwork:
		cut, none := networks, [][]string(nil)
		if f.Kind == OneNetwork {
			cut = networks[f.Network : f.Network+1]
		}
		err := c.CutNetworks(cut, group)
		during()
		return errors.Join(err, c.CutNetworks(cut, none...))
	case OneWay:
		for _, network := range networks {
			if err := c.Lab().CutOneWay(network, group[0], group[1]); err != nil {
				return err
			}
		}
		during()
		return c.CutNetworks(networks)
	case Loss:
		err := c.lose(f.Percent)
		during()
		return errors.Join(err, c.lose(0))
	case Cable:
		err := c.Lab().LinkDown(group[0], networks[f.Network])
		during()
		return errors.Join(err, c.Lab().LinkUp(group[0], networks[f.Network]))
	case FreezeLUN:
		c.lun.store.Freeze()
		during()
		c.lun.store.Thaw()
		return nil
	default:
		return c.processFault(f, group[0], during)
	}
}

func (c *cluster) lose(percent float64) error {
	var errs []error
	for _, network := range networks {
		errs = append(errs, c.Lab().Loss(network, percent))
	}
	return errors.Join(errs...)
}

func (c *cluster) processFault(f Fault, node string, during func()) error {
	switch f.Kind {
	case Crash:
		err := c.Kill(node)
		during()
		return errors.Join(err, c.start(node))
	case Reboot:
		return c.rebootAfter(node, during)
	case Restart:
		err := c.Stop(node)
		if c.resets.isOff(node) {
			err = nil // the watchdog was first
		}
		during()
		return errors.Join(err, c.start(node))
	case Freeze:
		p := c.Process(node)
		err := p.Signal(syscall.SIGSTOP)
		during()
		return errors.Join(err, p.Signal(syscall.SIGCONT))
	default:
		return fmt.Errorf("fault %q is not known", f.Kind)
	}
}

func (c *cluster) rebootAfter(node string, during func()) error {
	err := c.Kill(node)
	c.resets.boot(node)
	during()
	return errors.Join(err, c.Reboot(node))
}

// start starts the agent, unless the node is off.
func (c *cluster) start(node string) error {
	return c.resets.unlessOff(node, func() error { return c.Start(node) })
}
