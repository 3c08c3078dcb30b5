package netns

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	fencingv1 "github.com/fencing-agent/fencing-agent/api/v1"
	"github.com/fencing-agent/fencing-agent/integration/observe"
)

// outcome is one row of the table of repeated splits.
type outcome struct {
	lab, round, sector int
	a, b               []string
	gap                time.Duration // between the cuts of the two networks
	winner             []string
	decided            time.Duration // from the last cut until the last winner was granted
	starved            time.Duration // until the last loser was no longer fed
	allowed            time.Duration
	healed             time.Duration // from the heal until all nodes count each other
}

// TestSplitAgainAndAgain cuts four agents 2 | 2 at random moments, in random halves, on both networks at once or on one
// after the other. Exactly one half must live each time.
func TestSplitAgainAndAgain(t *testing.T) {
	need(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var (
		mu   sync.Mutex
		rows []outcome
	)
	t.Run("labs", func(t *testing.T) {
		for l := range *labs {
			t.Run(fmt.Sprint(l+1), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, uint64(l)))
				sector := []int{512, 4096}[l%2]
				round := l
				// The machine may stand still.
				for attempt := 1; round < *rounds && attempt <= 3 && !t.Failed(); attempt++ {
					t.Run(fmt.Sprint("attempt ", attempt), func(t *testing.T) {
						c := newCluster(t, 4, sector, nil)
						c.startAll()
						for ; round < *rounds; round += *labs {
							row := c.splitOnce(random)
							row.lab, row.round, row.sector = l+1, round+1, sector
							mu.Lock()
							rows = append(rows, row)
							mu.Unlock()
						}
					})
				}
			})
		}
	})
	printTable(rows, *rounds)
	if len(rows) != *rounds {
		t.Errorf("%d of %d splits were decided correctly", len(rows), *rounds)
	}
}

// splitOnce splits and heals a healthy cluster.
func (c *cluster) splitOnce(random *rand.Rand) outcome {
	c.t.Helper()
	budget := c.budget()
	row := outcome{allowed: lastFeed(budget)}
	nodes := slices.Clone(c.nodes)
	random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	row.a, row.b = nodes[:len(nodes)/2], nodes[len(nodes)/2:]

	// The cut falls at a random moment between the agents' heartbeats and probes.
	quiet := time.Now()
	c.hold(time.Duration(random.Int64N(int64(3*time.Second))), "calm before the split", observe.Steady(quiet, c.nodes...))
	if random.IntN(2) == 0 {
		first := random.IntN(len(networks))
		c.must(c.Lab().CutNetwork(networks[first], row.a, row.b))
		row.gap = time.Duration(random.Int64N(int64(2 * time.Second)))
		c.hold(row.gap, "one network is cut", observe.Steady(quiet, c.nodes...))
	}
	began := time.Now()
	c.must(c.Lab().Cut(row.a, row.b))
	oneSide := observe.OneSideGranted(began, row.a, row.b)
	c.always = oneSide
	v, _ := c.await(row.allowed, "exactly one half lives", observe.Decided(row.a, row.b))
	row.winner = row.a
	losers := row.b
	if observe.Feeding(fencingv1.Reason_REASON_SPLIT_WON, row.a...)(v) != "" {
		row.winner, losers = row.b, row.a
	}
	for _, change := range v.Verdicts {
		if change.At.After(began) && change.Reason == fencingv1.Reason_REASON_SPLIT_WON {
			row.decided = change.At.Sub(began)
		}
	}
	for _, node := range losers {
		if at, ok := observe.Starved(v, began, node); ok {
			row.starved = max(row.starved, at.Sub(began))
		}
	}
	granted := observe.Tokens(v, row.winner)
	c.hold(budget.GetDMax().AsDuration(), "it stays so", oneSide, observe.Decided(row.a, row.b))
	c.await(startLimit, "the losers are LEFT", observe.Reported(began, fencingv1.EventType_LEFT, losers, row.winner))

	healed := time.Now()
	c.must(c.Lab().Heal())
	_, row.healed = c.await(startLimit, "everybody is back", c.everybody(), observe.LeaseFree(c.nodes...), observe.Renounced(granted))
	c.await(startLimit, "the losers are JOINed", observe.Reported(healed, fencingv1.EventType_JOIN, losers, row.winner), oneSide)
	c.always = nil
	return row
}

func printTable(rows []outcome, wanted int) {
	slices.SortFunc(rows, func(a, b outcome) int { return a.round - b.round })
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "split\tlab\tsector\thalves\tgap\tlives\tgranted after\tother half starved after\tallowed\thealed after\t")
	list := func(nodes []string) string { return strings.Join(slices.Sorted(slices.Values(nodes)), "") }
	s := func(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
	for _, r := range rows {
		fmt.Fprintf(w, "%d\t%d\t%d\t%s|%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", r.round, r.lab, r.sector, list(r.a), list(r.b), s(r.gap),
			list(r.winner), s(r.decided), s(r.starved), s(r.allowed), s(r.healed))
	}
	w.Flush()
	fmt.Printf("in %d of %d splits exactly one half lived\n", len(rows), wanted)
}
