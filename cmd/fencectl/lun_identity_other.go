//go:build !linux

package main

import (
	"errors"

	"github.com/fencing-agent/fencing-agent/cmd/fencectl/doctor"
)

func formattedFor(string) (doctor.Format, error) {
	return doctor.Format{}, errors.New("LUNs are read on Linux only")
}
