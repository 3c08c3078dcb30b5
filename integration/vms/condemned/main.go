// Command condemned feeds a watchdog as the agent does, and then condemns the boot, like an agent that has certainly
// lost its quorum. It prints the timeout that the driver accepted, and waits for the reset.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/integration/vms/control"
	"github.com/fencing-agent/fencing-agent/watchdog"
	"github.com/fencing-agent/fencing-agent/watchdog/wdt"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "condemned:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: condemned DEVICE TIMEOUT")
	}
	timeout, err := time.ParseDuration(os.Args[2])
	if err != nil {
		return err
	}
	device, err := wdt.Find(os.Args[1])
	if err != nil {
		return err
	}
	states := make(chan wdt.State, 16)
	f, err := wdt.NewFeeder(wdt.Config{
		Device: device, Timeout: timeout, FeedInterval: time.Second, Clock: boottime.Now, Realtime: true,
		OnState: func(s wdt.State) { states <- s },
	})
	if err != nil {
		return err
	}
	go func() { _ = f.Run(context.Background()) }()
	f.Grant(boottime.Now().Add(time.Hour))
	f.Arm()
	for s := range states {
		switch {
		case s.Condemned:
			return tell(s)
		case s.Armed:
			f.Condemn(time.Second)
		case s.Err != nil:
			return s.Err
		}
	}
	return nil
}

// tell prints the timeout that the driver accepted, and never returns: the end of this process would feed the watchdog.
func tell(s wdt.State) error {
	c := control.Condemned{Told: s.Sentence}
	if s.Err != nil {
		c.Why = s.Err.Error()
	}
	if s.Sentence > 0 {
		c.Bound = watchdog.SentenceBound(s.Sentence)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	fmt.Println(control.CondemnedWord + string(text))
	select {}
}
