package vms

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/vms/image"
)

// corosync decides a tie for the half with the lowest node id, and resets nobody: a node counts as active if it has
// quorum.
var corosync = &contender{
	name: "corosync", packages: []string{"corosync"}, programs: []string{"corosync", "corosync-quorumtool"},
	faults: append([]fault{silent, networksCut}, crashes...),
	voice:  corosyncVoice,
	crew: func(c *contender) (crew, error) {
		return peerCrew(c, sharedMemory+"exec corosync -f\n", corosyncFiles)
	},
	ready: quorate,
	end: func(s *story, at time.Time) []outcome {
		idle := s.all(second, at, "the second half is told that it has no quorum", s.says("non-primary component"))
		told := s.all(first, at, "the first half has a membership of its own", s.says("[QUORUM] Members[2]: 1 2"))
		s.keptQuorum(at)
		s.spared(nodes, at)
		return []outcome{{idle: idle, active: max(idle, told)}}
	},
	told: func(s *story, victim string, at time.Time) time.Duration {
		return s.all(without(nodes, victim), at, "the others have a membership without "+victim, s.says("[QUORUM] Members[3]: "))
	},
}

// keptQuorum fails if a node of the first half has lost its quorum.
func (s *story) keptQuorum(at time.Time) {
	s.t.Helper()
	for _, node := range first {
		if _, lost := s.said(node, at, "non-primary component"); lost {
			s.t.Fatalf("%s lost its quorum, which has the lowest node id in its half", node)
		}
	}
}

// sharedMemory mounts the file system in which corosync and wdmd keep their state.
const sharedMemory = "mkdir -p /dev/shm /var/lib/corosync && mount -t tmpfs tmpfs /dev/shm\n"

func corosyncFiles(int) map[string]string {
	var b strings.Builder
	b.WriteString(`totem {
  version: 2
  cluster_name: lab
  transport: knet
}
quorum {
  provider: corosync_votequorum
  auto_tie_breaker: 1
}
logging {
  to_stderr: yes
  to_syslog: no
}
nodelist {
`)
	for i, node := range nodes {
		fmt.Fprintf(&b, "  node {\n    name: %s\n    nodeid: %d\n    ring0_addr: %s\n    ring1_addr: %s\n  }\n", node, i+1, address(1, i+1), address(2, i+1))
	}
	b.WriteString("}\n")
	return map[string]string{"/etc/corosync/corosync.conf": b.String()}
}

func quorate(s *story) {
	s.settled("four nodes have quorum", "corosync-quorumtool -s > /tmp/quorum; grep -q 'Total votes: *4' /tmp/quorum && grep -q 'Quorate: *Yes' /tmp/quorum", nodes...)
}

// sbd is driven by corosync's votequorum and by a loop that replaces Pacemaker: the node with the lowest id of a
// quorate half writes a reset into the slot of each node that left. The half whose messages count as delivered is
// active.
var sbd = &contender{
	name: "sbd", packages: []string{"sbd", "corosync"}, programs: []string{"sbd", "corosync", "corosync-quorumtool"},
	faults: append([]fault{silent, networksCut, halfCutOff}, crashes...),
	voice:  corosyncVoice,
	crew:   func(c *contender) (crew, error) { return peerCrew(c, sharedMemory+sbdScript, corosyncFiles) },
	prepare: func(s *story) {
		s.hasDisk("n1")
		s.peer("n1", "sbd -d /dev/sda -I 30 create")
	},
	ready: func(s *story) {
		quorate(s)
		s.settled("all watchdogs are armed, all slots clear",
			"pidof sbd > /dev/null && [ $(cat /sys/class/watchdog/watchdog0/state) = active ] && sbd -d /dev/sda list | grep -q $(cat /proc/sys/kernel/hostname).clear", nodes...)
	},
	end: func(s *story, at time.Time) []outcome {
		reset := s.all(second, at, "the second half is reset", s.resetAt)
		told := max(s.all(first[:1], at, "n3 counts as fenced", s.says("fenced n3")), s.all(first[:1], at, "n4 counts as fenced", s.says("fenced n4")))
		s.keptQuorum(at)
		s.spared(first, at)
		return []outcome{{reset: reset, idle: reset, active: max(reset, told)}}
	},
	told: sbdTold,
}

// sbdTold waits until sbd's message to the node counts as delivered.
func sbdTold(s *story, victim string, at time.Time) (took time.Duration) {
	s.t.Helper()
	s.eventually(at.Add(endLimit), victim+" counts as fenced", func() string {
		for _, node := range without(nodes, victim) {
			if moment, ok := s.said(node, at, "fenced "+victim); ok {
				took = moment.Sub(at)
				return ""
			}
		}
		return "nobody has fenced it"
	})
	return took
}

// Here a node needs more time than its watchdog timeout to find its slot. sbd then gives up and is started again.
const sbdScript = awaitDisk + `busybox syslogd -n -O - &
until [ -S /dev/log ] && sbd -d /dev/sda dump > /dev/null 2>&1; do sleep 1; done
export SBD_SYNC_RESOURCE_STARTUP=no
until sbd -v -d /dev/sda -w /dev/watchdog -n $NODE_NAME -P -P -c -c watch; do sleep 2; done
corosync -f 2>&1 | while read -r line; do
  echo "$line"
  case "$line" in
  *"Members left: "*)
    left=${line##*Members left: } ;;
  *"[QUORUM] Members["*)
    set -- ${line##*]: }
    if [ "$1" = $NODE_ID ] && corosync-quorumtool -s | grep -q 'Quorate: *Yes'; then
      for id in $left; do
        (sbd -d /dev/sda message n$id reset && echo "fenced n$id") &
      done
    fi
    left= ;;
  esac
done
`

// sanlock does not use the networks: what counts is which node renews its lease on the LUN. A program is active if it
// holds a lease, of which each node has one. If storage is lost, the program on n4 hangs, and the others get errors and
// can be ended.
var sanlock = &contender{
	name: "sanlock", packages: []string{"sanlock"}, programs: []string{"sanlock", "wdmd"},
	faults: append([]fault{silent, halfCutOff}, crashes...),
	voice:  voice{idle: saying("holder ended")},
	crew: func(c *contender) (crew, error) {
		members, err := peerCrew(c, sanlockScript, func(i int) map[string]string {
			if nodes[i] != "n4" {
				return nil
			}
			return map[string]string{"/etc/iscsi/iscsid.conf": strings.Replace(iscsidConf, "replacement_timeout = 5", "replacement_timeout = 86400", 1)}
		})
		members.disk = func(root string) error {
			if err := image.Install(c.tree, root, c.programs...); err != nil {
				return err
			}
			return os.Link(filepath.Join(built.programs, "holder"), filepath.Join(root, "bin", "holder"))
		}
		return members, err
	},
	prepare: func(s *story) {
		s.hasDisk("n1")
		s.peer("n1", "sanlock direct init -s LAB:0:/dev/sda:0")
		for _, node := range nodes {
			s.peer("n1", "sanlock direct init -r "+resource(node))
		}
	},
	ready: func(s *story) {
		s.settled("all are in the lockspace", "sanlock client status | grep '^s LAB' | grep -vq 'ADD\\|REM'", nodes...)
		for _, node := range nodes {
			s.settled(node+" has its lease", fmt.Sprintf(holdShell, resource(node)), node)
		}
	},
	end: takenOver,
	told: func(s *story, victim string, at time.Time) time.Duration {
		took, err := s.takes(without(nodes, victim)[0], victim, at)
		s.must(err)
		return took
	},
}

// holdShell succeeds when this node has its lease, which is when the program starts, and requests the lease if no
// request is running.
const holdShell = `pidof holder > /dev/null && exit
[ -e /tmp/asked ] || (touch /tmp/asked; sanlock client command -r %s -c /disk/bin/holder /dev/sda; rm /tmp/asked; echo holder ended) < /dev/null > /dev/console 2>&1 &
sleep 1; exit 1
`

const sanlockScript = sharedMemory + awaitDisk + `mkdir -p /run/sanlock /run/wdmd /var/log
until sanlock direct read_leader -s LAB:1:/dev/sda:0 > /dev/null 2>&1; do sleep 1; done
wdmd -D -H 0 -G root -w /dev/watchdog &
sanlock daemon -D -U root -G root -e $NODE_NAME &
until sanlock client add_lockspace -s LAB:$NODE_ID:/dev/sda:0; do sleep 1; done
wait
`

// resource is the lease of a node. The first megabyte of the LUN belongs to the lockspace.
func resource(node string) string {
	return fmt.Sprintf("LAB:%s:/dev/sda:%d", node, (1+strings.Index("n1n2n3n4", node)/2)<<20)
}

// takes waits until a node has the lease of another one, and returns the time from the fault until then.
func (s *story) takes(node, of string, at time.Time) (time.Duration, error) {
	ctx, cancel := context.WithDeadline(s.t.Context(), at.Add(endLimit))
	defer cancel()
	// Its exit code does not depend on the lease.
	script := peerShell + "rm -f /tmp/taken; until [ -e /tmp/taken ]; do sanlock client command -r " + resource(of) + " -c /bin/touch /tmp/taken; sleep 1; done"
	if out, err := s.machines[node].Run(ctx, script); err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	took := time.Since(at)
	s.logf("%s has the lease of %s", node, of)
	return took, nil
}

// takenOver waits until n1 has the lease of n3, and n2 that of n4.
func takenOver(s *story, at time.Time) []outcome {
	var wg sync.WaitGroup
	taken := map[string]time.Duration{}
	var mu sync.Mutex
	for i, loser := range second {
		wg.Go(func() {
			took, err := s.takes(first[i], loser, at)
			if err != nil {
				s.t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			taken[loser] = took
		})
	}
	wg.Wait()
	if s.t.Failed() {
		s.t.FailNow()
	}
	s.spared(first, at)
	ended := s.all([]string{"n3"}, at, "the program on n3 is ended", s.says("holder ended"))
	reset := s.all([]string{"n4"}, at, "n4 is reset", s.resetAt)
	s.spared([]string{"n3"}, at)
	s.run("n3", "(sleep 1; echo b > /proc/sysrq-trigger) > /dev/null 2>&1 &") // its lockspace is gone: it begins again
	s.all([]string{"n3"}, at, "n3 boots again", s.resetAt)
	return []outcome{
		{of: "a program that can be ended", idle: ended, active: max(ended, taken["n3"])},
		{of: "a program whose I/O hangs", reset: reset, idle: reset, active: max(reset, taken["n4"])},
	}
}
