//go:build !linux

package main

import (
	"errors"

	"github.com/fencing-agent/fencing-agent/cmd/fencectl/doctor"
)

func formattedFor(string) (doctor.Format, error) {
	return doctor.Format{}, errors.New("LUNs are read on Linux only")
}

func lunPaths(string, string) ([]doctor.Finding, error) {
	return nil, errors.New("paths of a LUN are looked at on Linux only")
}
