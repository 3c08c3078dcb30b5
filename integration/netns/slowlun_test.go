package netns

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/cmd/fencing-agent/config"
	"github.com/fencing-agent/fencing-agent/integration/lab"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

var (
	slowDelays  = flag.String("slow", "0s,700ms", "durations of each I/O on the slow LUN; 0s,100ms,300ms,500ms,700ms,1s,1500ms,2s is the table of docs/measurements/verification.md")
	slowTimings = flag.String("slow-timing", "default", "timings of the agents on the slow LUN")
	slowDevices = flag.String("slow-devices", "1", "number of devices of the slow LUN: 1, 3 or both")
	slowSplits  = flag.Int("slow-splits", 2, "number of equal splits for each of these")
	slowLabs    = flag.Int("slow-labs", 4, "number of these clusters that run at the same time")
)

// slowCase is one row of the table.
type slowCase struct {
	program string // program of the agents
	timing  string
	devices int
	delay   time.Duration
}

func (s slowCase) label() string {
	if s.program == "" {
		return "now"
	}
	return "before"
}

// slowSplit is the result of one split.
type slowSplit struct {
	slowCase
	lives   int           // number of nodes that live, all in one half
	verdict time.Duration // from the cut until both of them feed by the grant; 0: they did not
	io      time.Duration // duration of an I/O, as measured by the agents
	ios     int           // I/Os of all nodes on all devices, from the cut to the verdict
	gap     time.Duration // the longest time for which a node that lives had no permission
	judged  bool          // false if the machine stood still
}

// TestSlowLUN: four agents are split 2 | 2, on a LUN whose I/O is slow. Exactly one half lives.
func TestSlowLUN(t *testing.T) {
	need(t)
	var cases []slowCase
	programs := []string{""}
	if old := os.Getenv(oldEnv); old != "" {
		programs = []string{old, ""}
	}
	for _, devices := range strings.Split(*slowDevices, ",") {
		n, err := strconv.Atoi(devices)
		if err != nil {
			t.Fatal(err)
		}
		for _, timing := range strings.Split(*slowTimings, ",") {
			for _, text := range strings.Split(*slowDelays, ",") {
				delay, err := time.ParseDuration(text)
				if err != nil {
					t.Fatal(err)
				}
				for _, program := range programs {
					cases = append(cases, slowCase{program, timing, n, delay})
				}
			}
		}
	}
	var (
		mu   sync.Mutex
		rows []slowSplit
		free = make(chan struct{}, *slowLabs)
	)
	t.Run("clusters", func(t *testing.T) {
		for round := range *slowSplits {
			for _, c := range cases {
				name := fmt.Sprintf("%s/%d devices/%v/%s/%d", c.timing, c.devices, c.delay, c.label(), round+1)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					free <- struct{}{}
					defer func() { <-free }()
					row := c.split(t, round)
					mu.Lock()
					rows = append(rows, row)
					mu.Unlock()
					// If I/O is slower than that, the verdict may come too late, which the table shows.
					if promised := config.ForTiming(config.Timing(c.timing), 4, true).SlowestIO(); c.program == "" && row.judged && row.lives != 2 && c.delay <= promised {
						t.Errorf("%d nodes live, want the two of one half", row.lives)
					}
				})
			}
		}
	})
	printSlow(cases, rows)
}

// cluster returns four agents on LUNs that delay I/O.
func (s slowCase) cluster(t *testing.T) (*cluster, []*lab.SlowFile) {
	t.Helper()
	dir := newDir(t)
	var files []string
	for range s.devices {
		file, err := lab.NewLUNFile(dir, 4<<20)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		files = append(files, file.Path)
	}
	args := append([]string{"lun", "init"}, files...)
	args = append(args, "--cluster", "demo", "--node-group", "demo", "--slots", "4")
	if out, err := exec.Command(filepath.Join(binaries, "fencectl"), args...).CombinedOutput(); err != nil {
		t.Fatalf("fencectl lun init: %v\n%s", err, out)
	}
	var stores []*lab.SlowFile
	paths := map[string][]string{}
	for _, node := range nodeNames(4) {
		for _, file := range files {
			store, err := lab.NewSlowFile(file)
			if err != nil {
				t.Skip(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			loops, err := lab.LoopDevices(store.Path, 1, 512)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { loops.Close() })
			stores, paths[node] = append(stores, store), append(paths[node], loops.Paths[0])
		}
	}
	c := newClusterIn(t, dir, 4, lab.AgentConfig{
		LUN:    func(node string) string { return paths[node][0] },
		OwnLUN: func(node string) map[string]any { return map[string]any{"devices": paths[node]} },
		// The watchdog has the times of the timing.
		Override: map[string]any{"timing": s.timing, "watchdog": map[string]any{"driver": "none"}},
	})
	c.lun = paths["n1"][0]
	c.must(c.stalls.Disk(filepath.Dir(files[0])))
	return c, stores
}

// split starts a cluster, splits it once and returns the result. In every second round the agents are restarted first,
// so that their ballots use both copies of their slots.
func (s slowCase) split(t *testing.T, round int) slowSplit {
	c, stores := s.cluster(t)
	if s.program != "" {
		for _, node := range c.nodes {
			c.must(c.Use(node, s.program))
		}
	}
	c.startAll()
	if round%2 == 1 {
		for _, node := range c.nodes {
			c.must(c.Kill(node))
		}
		c.startAll()
	}
	for _, store := range stores {
		store.SetDelay(s.delay)
	}
	c.hold(max(5*time.Second, 10*s.delay), "all live while they see how slow it is", observe.Feeding(0, c.nodes...))
	row := slowSplit{slowCase: s, io: s.measured(c)}
	a, b := []string{"n1", "n2"}, []string{"n3", "n4"}
	if round/2%2 == 1 {
		a, b = []string{"n1", "n3"}, []string{"n2", "n4"}
	}
	budget := c.budget()
	before := total(stores)
	began := time.Now()
	c.must(c.Lab().Cut(a, b))
	c.always = observe.OneSideGranted(began, a, b)
	// By then each node feeds by the grant, or its watchdog has fired.
	limit := budget.GetHorizonTie().AsDuration()
	v, err := c.Await(t.Context(), limit, observe.Decided(a, b))
	if err == nil {
		row.verdict, row.ios = time.Since(began), int(total(stores)-before)
		// Which nodes live by then, and with which gaps, is counted below.
		c.hold(budget.GetDMax().AsDuration(), "never both halves", c.always)
		v, _ = c.View()
	}
	if missing := c.always(v); missing != "" {
		t.Fatal(missing)
	}
	dark := budget.GetWatchdogTimeout().AsDuration() - budget.GetFeedInterval().AsDuration()
	for _, node := range c.nodes {
		if gap := withoutPermission(v, began, node); gap < dark && observe.Feeding(fencingv1.Reason_REASON_SPLIT_WON, node)(v) == "" {
			row.lives++
			row.gap = max(row.gap, gap)
		}
	}
	row.judged = c.stalls.Since(began) <= standstill
	return row
}

func total(stores []*lab.SlowFile) (ios int64) {
	for _, store := range stores {
		ios += store.IOs.Load()
	}
	return ios
}

// withoutPermission returns the longest continuous time for which a node was not fed.
func withoutPermission(v *observe.View, since time.Time, node string) (longest time.Duration) {
	var from time.Time
	for _, change := range v.Verdicts {
		if change.Node != node || !change.At.After(since) {
			continue
		}
		starves := change.Permission == fencingv1.Permission_PERMISSION_STARVE
		switch {
		case starves && from.IsZero():
			from = change.At
		case !starves && !from.IsZero():
			longest, from = max(longest, change.At.Sub(from)), time.Time{}
		}
	}
	if !from.IsZero() {
		longest = max(longest, v.Now.Sub(from))
	}
	return longest
}

// measured returns the duration of an I/O from the metrics of the first agent: the mean of several consecutive ones.
func (s slowCase) measured(c *cluster) time.Duration {
	c.t.Helper()
	sum0, count0 := c.ioMetric()
	c.hold(max(2*time.Second, 4*s.delay), "all live", observe.Feeding(0, c.nodes...))
	sum, count := c.ioMetric()
	if count == count0 {
		return 0
	}
	return time.Duration((sum - sum0) / (count - count0) * float64(time.Second))
}

func (c *cluster) ioMetric() (sum, count float64) {
	c.t.Helper()
	for line := range strings.Lines(c.metrics("n1")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		number, _ := strconv.ParseFloat(value, 64)
		switch {
		case strings.HasPrefix(name, "fencing_agent_lun_io_seconds_sum"):
			sum += number
		case strings.HasPrefix(name, "fencing_agent_lun_io_seconds_count"):
			count += number
		}
	}
	return sum, count
}

func printSlow(cases []slowCase, rows []slowSplit) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "agents\ttiming\tdevices\tdelay\tI/O measured\tone half alive\tof\tall reset\tverdict median\tmost\tI/Os until then\tmost without permission\t")
	for _, c := range cases {
		var verdicts, ios, took []time.Duration
		var one, none, of int
		var gap time.Duration
		for _, r := range rows {
			if r.slowCase != c || !r.judged {
				continue
			}
			of++
			took = append(took, r.io)
			switch r.lives {
			case 2:
				one++
				verdicts, ios, gap = append(verdicts, r.verdict), append(ios, time.Duration(r.ios)), max(gap, r.gap)
			case 0:
				none++
			}
		}
		s := func(of []time.Duration, at func([]time.Duration) time.Duration) string {
			if len(of) == 0 {
				return "-"
			}
			return fmt.Sprintf("%.2f s", at(of).Seconds())
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%v\t%s\t%d\t%d\t%d\t%s\t%s\t%d\t%.2f s\t\n", c.label(), c.timing, c.devices, c.delay,
			s(took, median), one, of, none, s(verdicts, median), s(verdicts, slices.Max[[]time.Duration]), median(ios), gap.Seconds())
	}
	w.Flush()
}

func median(of []time.Duration) time.Duration {
	if len(of) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(of))[len(of)/2]
}
