//go:build linux

package main

import (
	"context"
	"time"

	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
)

// formattedFor says for which cluster and node group a LUN was formatted. A device that does not answer keeps nobody
// waiting.
func formattedFor(device string) (cluster, group string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	sb, err := lunadmin.Identity(ctx, device)
	if err != nil {
		return "", "", err
	}
	return sb.Cluster, sb.NodeGroup, nil
}
