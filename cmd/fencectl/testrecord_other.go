//go:build !linux

package main

import (
	"errors"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencectl/trial"
)

// testRecord needs Linux.
type testRecord struct {
	env                  *environment
	file, path, identity string
}

func (r testRecord) last() error {
	return errors.New("watchdogs are tested on Linux: run it on the node")
}

func (r testRecord) tried(string) (bool, error) { return false, r.last() }

func (r testRecord) failed(string) {}

func (r testRecord) keep(trial.Info) (trial.Record, error) { return nil, nil }

func (r testRecord) latest(_ string, timeout time.Duration) time.Duration { return timeout }

func syncDisks() {}
