package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// barrier resets each logical unit of the method, and nothing else. It returns nil only if all resets were confirmed:
// then no command that the target had accepted earlier is still pending.
func (a *agent) barrier(ctx context.Context) error {
	devices := a.method.Devices()
	if len(devices) == 0 {
		return errors.New("no devices are given whose logical units could be reset")
	}
	for _, device := range devices {
		if !strings.HasPrefix(device, "/") {
			return fmt.Errorf("%s is not the path of a device: its logical unit is not reset", device)
		}
		c := exec.CommandContext(ctx, "sg_reset", "--no-esc", "--device", device)
		var complaint bytes.Buffer
		said := &limited{&complaint, mostMessage}
		c.Stdout, c.Stderr = said, said
		ownGroup(c)
		c.WaitDelay = killWait
		err := c.Run()
		if ctx.Err() != nil {
			return fmt.Errorf("reset of the logical unit %s: its time is up: %w", device, ctx.Err())
		}
		if err != nil {
			return fmt.Errorf("reset of the logical unit %s: %s", device, cmp.Or(strings.TrimSpace(complaint.String()), err.Error()))
		}
	}
	return nil
}
