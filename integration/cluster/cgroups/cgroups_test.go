package cgroups

import (
	"slices"
	"testing"
)

func TestHierarchiesOfHosts(t *testing.T) {
	for name, c := range map[string]struct {
		mounts string
		want   []hierarchy
	}{
		"v1, one hierarchy for each controller": {
			`30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
32 30 0:28 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,release_agent=/lib/systemd/systemd-cgroups-agent,name=systemd
33 30 0:29 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`, []hierarchy{{"/sys/fs/cgroup/cpu", "cpu"}, {"/sys/fs/cgroup/systemd", "name=systemd"}},
		},
		"v1, two controllers in one": {
			"31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n",
			[]hierarchy{{"/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct"}},
		},
		"v2": {
			"28 24 0:25 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n",
			[]hierarchy{{"/sys/fs/cgroup", ""}},
		},
		"none": {"21 24 0:19 / /proc rw - proc proc rw\n", nil},
	} {
		if got := parseMounts(c.mounts); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestControllersInAnyOrder(t *testing.T) {
	if !sameControllers("cpuacct,cpu", "cpu,cpuacct") || sameControllers("cpu", "cpu,cpuacct") || sameControllers("name=systemd", "") {
		t.Error("controllers are compared as text")
	}
}
