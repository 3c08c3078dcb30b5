//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencing-agent/fencing-agent/cmd/fencectl/doctor"
	"github.com/fencing-agent/fencing-agent/diskquorum/lunadmin"
)

// lunPatience is how long a device may take to answer.
const lunPatience = 5 * time.Second

// formattedFor reads for which group a LUN was formatted. It does not wait for a device that does not answer.
func formattedFor(device string) (f doctor.Format, err error) {
	path, err := lunadmin.Find(device)
	if err != nil {
		return f, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lunPatience)
	defer cancel()
	err = lunadmin.Inspect(ctx, path, lunadmin.InspectOptions{Count: 1}, func(r *lunadmin.Report) error {
		f = doctor.Format{Cluster: r.Superblock.Cluster, NodeGroup: r.Superblock.NodeGroup, Slots: r.Superblock.Slots, ReadOnly: r.Device.ReadOnly, Place: 1, Of: 1}
		if set := r.Superblock.Set; set != nil {
			f.Set, f.Place, f.Of = set.ID, set.Device, set.Devices
		}
		for _, what := range r.Damage {
			if strings.HasPrefix(what, "superblock") {
				f.Damaged = append(f.Damaged, what)
			}
		}
		return nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%s does not answer for %v", path, lunPatience)
	}
	return f, err
}

// lunPaths says what is wrong with the way to a LUN, as the agent and lun check do.
func lunPaths(root, device string) (out []doctor.Finding, err error) {
	list, err := lunadmin.Paths(root, device)
	for _, a := range list {
		out = append(out, doctor.Finding{Found: a.Found, Do: a.Do})
	}
	return out, err
}
