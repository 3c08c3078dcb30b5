package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"sync"
	"syscall"

	"github.com/fencing-agent/fencing-agent/boottime"
)

// busy runs endless loops next to the agents until the returned function is called.
func busy(loops int) (stop func(), err error) {
	var all []*exec.Cmd
	stop = func() {
		for _, cmd := range all {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed
		}
	}
	for range loops {
		cmd := exec.Command("/bin/sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true} // like the programs of other users
		if err := cmd.Start(); err != nil {
			stop()
			return nil, fmt.Errorf("busy loop: %w", err)
		}
		all = append(all, cmd)
	}
	return stop, nil
}

// blink makes the LUN hang now and then, until ctx ends.
func (k *soak) blink(ctx context.Context) {
	rng := rand.New(rand.NewPCG(k.Seed, 0xb11c))
	for ctx.Err() == nil {
		boottime.Wait(ctx, seconds(rng, 5, 15))
		k.c.lun.store.Freeze()
		boottime.Wait(ctx, seconds(rng, 1, 6))
		k.c.lun.store.Thaw()
	}
}

// surround starts the disturbances that last during all rounds, in addition to the faults.
func (k *soak) surround(ctx context.Context) (stop func(), err error) {
	if k.Blink && !k.c.lun.canFreeze() {
		return nil, errors.New("the LUN cannot blink without /dev/fuse")
	}
	idle, err := busy(k.Busy)
	if err != nil {
		return nil, err
	}
	blinking, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if k.Blink {
		wg.Go(func() { k.blink(blinking) })
	}
	return func() {
		end()
		wg.Wait()
		idle()
	}, nil
}
