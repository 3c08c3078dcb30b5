package vms

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/fencing-agent/fencing-agent/integration/observe"
)

var allPaths = flag.Bool("defaults", false, "the paths of a LUN with all defaults of the tools, too")

const (
	// stallLimit bounds the wait for a read that stalls, even if both paths are lost with all defaults.
	stallLimit = 100 * time.Second
	// splitTime is the default time for an equal split. A path that is lost must be reported within it.
	splitTime = 10 * time.Second
)

// pathStall is the effect of a loss of paths on reads.
type pathStall struct {
	transport, settings, event string
	worst                      time.Duration // the longest read
	end                        string        // how that read ended
}

// TestPaths cuts one path of a LUN, and then both. It measures how long a read stalls with dm-multipath over iSCSI and
// with NVMe/TCP. It uses the settings that docs/operations.md and deploy/node advise and, with -defaults, those of the
// tools. Before any path is cut, lun check and doctor must name all settings that are wrong, and no others.
func TestPaths(t *testing.T) {
	need(t)
	c := &contender{name: "paths", packages: pathPackages}
	if _, err := c.fetch(t.Context(), t.Logf); err != nil {
		t.Fatal(err)
	}
	var table []pathStall
	for _, settings := range []string{"advised", "defaults"} {
		t.Run(settings, func(t *testing.T) {
			if settings == "defaults" && !*allPaths {
				t.Skip("only with -defaults")
			}
			crew, err := pathsCrew(c.tree, 1)
			if err != nil {
				t.Fatal(err)
			}
			s := &story{t: t, name: "paths", began: time.Now(), stalls: observe.NewStalls()}
			defer s.stalls.Close()
			l, err := newLab(t, crew)
			if err != nil {
				t.Fatal(err)
			}
			defer l.close(t)
			s.begin(l)
			table = append(table, s.paths(settings)...)
		})
	}
	for _, row := range table {
		t.Logf("| %s | %s | %s | %s | %s |", row.transport, row.settings, row.event, seconds(row.worst), row.end)
	}
}

// paths is the story of one node.
func (s *story) paths(settings string) (table []pathStall) {
	const node = "n1"
	advised := settings == "advised"
	s.offerAll()
	s.holds("the node is up", "[ -x /disk/bin/fencectl ] && ip addr show "+san2+" | grep -q "+address(4, 1), node)
	s.startUdev(node, advised)
	s.logins(node)
	wwid, device := s.wwid(node), ""
	s.names(node, "/dev/disk/by-id/wwn-0x"+wwid[1:], "no multipath device joins them: run multipath -a "+wwid)
	if device = "/dev/mapper/" + wwid; advised {
		device = "/dev/mapper/fence"
		s.advise(node, wwid)
	}
	s.run(node, "multipath -a "+wwid+" && multipathd reconfigure")
	s.holds("the paths are joined", "[ -b "+device+" ] && multipathd show maps raw format '%N' | grep -q 2", node)
	s.logf("%s", s.run(node, "multipath -ll; dmsetup table; cat /sys/class/iscsi_session/*/recovery_tmo /sys/class/iscsi_connection/*/*_tmo /sys/block/sd*/device/timeout"))
	if advised {
		s.names(node, device)
	} else {
		s.names(node, device, "queues I/O when all paths are lost", "noop_out_interval 5, noop_out_timeout 5", "SCSI commands to sda time out after 30 s")
	}
	table = append(table, s.lose(node, "dm-multipath, iSCSI", settings, device)...)
	s.connects(node, advised)
	device = "/dev/disk/by-id/nvme-uuid." + nvmeUUID
	s.logf("%s", s.run(node, "cd /sys/class/nvme && grep . */kato */ctrl_loss_tmo */fast_io_fail_tmo */reconnect_delay */transport; cat /sys/class/nvme-subsystem/*/iopolicy; ls /dev/disk/by-id"))
	if advised {
		s.names(node, "wwn:uuid."+nvmeUUID)
	} else {
		s.names(node, "wwn:uuid."+nvmeUUID, "nvme0 reports a lost path only after up to 15 s", "nvme1 waits without a path for 600 s", "nvme0 is given up 600 s after")
	}
	table = append(table, s.lose(node, "NVMe/TCP", settings, device)...)
	s.giveUp(node, device, advised)
	return table
}

// giveUp makes the kernel give up the NVMe controllers, as after ctrl_loss_tmo, and connect them again while a program
// holds the device. The program's reads fail from then on. A program that opens the device by its name gets the new
// one.
func (s *story) giveUp(node, device string, advised bool) {
	s.run(node, "/disk/bin/holder "+device+" > /tmp/reads 2>&1 & echo $! > /tmp/reader")
	defer s.run(node, "kill -9 $(cat /tmp/reader); true")
	before := s.run(node, "readlink -f "+device)
	s.holds("the program has the device", "ls -l /proc/$(cat /tmp/reader)/fd | grep -q nvme", node)
	s.run(node, "nvme disconnect -n "+subsystem)
	s.holds("its reads find no bytes", "grep -q 'no bytes: the device is gone' /tmp/reads", node)
	s.connects(node, advised)
	s.run(node, "/disk/bin/fencectl lun check --count 5 wwn:uuid."+nvmeUUID)
	if again := s.run(node, "grep '<nil>' /tmp/reads || true"); again != "" {
		s.t.Errorf("a descriptor of a device that was given up reads again: %s", again)
	}
	s.logf("given up and connected again: %s is now %s", strings.TrimSpace(before), strings.TrimSpace(s.run(node, "readlink -f "+device)))
}

// names checks that lun check and doctor warn of each of these. Without any, they must warn of nothing.
func (s *story) names(node, device string, want ...string) {
	s.t.Helper()
	config := agentConfig(nodesNamed(2), node)
	config["lun"] = map[string]any{"devices": []string{device}}
	text, err := yaml.Marshal(config)
	s.must(err)
	s.run(node, "cat > /tmp/agent.yaml <<'E'\n"+string(text)+"E")
	var check struct{ Warnings []string }
	var findings []struct{ Level, Subject, Found, Do string }
	s.must(json.Unmarshal([]byte(s.run(node, "/disk/bin/fencectl lun check --count 5 -o json "+device+" 2>/tmp/err || { cat /tmp/err; exit 1; }")), &check))
	s.must(json.Unmarshal([]byte(s.run(node, "/disk/bin/fencectl doctor --config /tmp/agent.yaml -o json 2>/tmp/err; [ $? -lt 2 ] || { cat /tmp/err; exit 1; }")), &findings))
	said := map[string]string{"lun check": strings.Join(check.Warnings, "; ")}
	for _, f := range findings {
		if f.Subject == "LUN paths" && f.Level != "ok" {
			said["doctor"] += f.Found + ": " + f.Do + "; "
		}
	}
	for _, by := range []string{"lun check", "doctor"} {
		for _, w := range want {
			if !strings.Contains(said[by], w) {
				s.t.Errorf("%s of %s does not say %q: %s", by, device, w, said[by])
			}
		}
		if len(want) == 0 && said[by] != "" {
			s.t.Errorf("%s of %s warns: %s", by, device, said[by])
		}
	}
	s.logf("lun check and doctor of %s: %s", device, said["doctor"])
}

// lose cuts the paths and restores them while a program reads.
func (s *story) lose(node, transport, settings, device string) (table []pathStall) {
	s.run(node, "/disk/bin/holder "+device+" > /tmp/reads 2>&1 & echo $! > /tmp/reader")
	defer s.run(node, "kill -9 $(cat /tmp/reader); true")
	used, mark := s.busiest(node), 0
	for _, step := range []struct {
		event string
		cut   []string // the networks that are cut; none: all networks are whole again
		ended func(lines []string, at time.Time) bool
	}{
		{"the path in use is lost", []string{used}, func(lines []string, _ time.Time) bool { return len(lines) > 0 }},
		{"it is back", nil, func(_ []string, at time.Time) bool { return time.Since(at) > splitTime }},
		{"both are lost", sans, func(lines []string, _ time.Time) bool { return len(lines) > 0 }},
		{"both are back", nil, func(lines []string, _ time.Time) bool {
			return len(lines) > 0 && strings.HasSuffix(lines[len(lines)-1], "<nil>")
		}},
	} {
		at := time.Now()
		if step.cut == nil {
			s.heal()
		} else {
			s.cut(step.cut, []string{node}, []string{storage})
		}
		var lines []string
		missing := s.poll(at.Add(stallLimit), func() string {
			if lines, _ = s.reads(node, mark); step.ended(lines, at) {
				return ""
			}
			return "no read has ended"
		})
		took := time.Since(at)
		_, mark = s.reads(node, mark)
		row := pathStall{transport: transport, settings: settings, event: step.event, end: "no read took long"}
		for _, line := range lines {
			if d, result := parseRead(line); d >= row.worst {
				row.worst, row.end = d, result
			}
		}
		switch {
		case missing != "":
			row.worst, row.end = took, "no answer within this time"
		case step.event == "both are back":
			row.worst, row.end = took, "answered again"
		}
		s.logf("%s: %s (%s): %s %s: %s", transport, step.event, used, seconds(row.worst), row.end, strings.Join(lines, " | "))
		if settings == "advised" && row.worst > splitTime && step.cut != nil {
			s.fatal("%s: %s: a read took %v", transport, step.event, row.worst)
		}
		table = append(table, row)
	}
	return table
}

// parseRead parses a line of the reader: how long the read took, and how it ended.
func parseRead(line string) (took time.Duration, result string) {
	var s float64
	_, text, _ := strings.Cut(line, " in ")
	if _, err := fmt.Sscanf(text, "%f s: ", &s); err != nil {
		return 0, line
	}
	_, result, _ = strings.Cut(text, ": ")
	if result == "<nil>" {
		result = "answered"
	}
	return seconds64(s), result
}
