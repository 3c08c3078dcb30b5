//go:build linux

package main

import (
	"context"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencectl/doctor"
	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
)

// formattedFor says for whom a LUN was formatted. A device that does not answer keeps nobody waiting.
func formattedFor(device string) (doctor.Format, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	sb, damaged, err := lunadmin.Identity(ctx, device)
	if err != nil {
		return doctor.Format{}, err
	}
	return doctor.Format{Cluster: sb.Cluster, NodeGroup: sb.NodeGroup, Slots: sb.Slots, Damaged: damaged}, nil
}
