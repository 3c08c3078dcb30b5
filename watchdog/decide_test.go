package watchdog

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/boottime"
	"github.com/fencing-agent/fencing-agent/netgossip"
	"github.com/fencing-agent/fencing-agent/netgossip/tie"
)

const sec = boottime.Instant(time.Second)

// columns lists the inputs of the decision table with all their values.
var columns = []struct {
	name   string
	values []string
}{
	{"tally", []string{"majority", "split", "minority"}},
	{"grant", []string{"off", "none", "pending", "won", "lost", "unavailable"}},
	{"api", []string{"off", "unknown", "yes", "no"}},
	{"budget", []string{"open", "over", "never"}},
	{"had", []string{"yes", "no"}},
	{"disarm", []string{"no", "free", "untold", "told"}},
	{"asks", []string{"yes", "no"}},
	{"slots", []string{"silent", "counting", "elsewhere", "isolating", "vacant", "asking", "missing"}},
	{"terms", []string{"one", "odds"}},
}

const tableNow = 100 * sec

// inputsOf returns the inputs for a combination of column values.
func inputsOf(v []string) Inputs {
	in := Inputs{Now: tableNow, OnLoss: LossFence, LossLease: 4 * time.Second}
	switch v[0] {
	case "majority":
		in.Outcome, in.QuorumUntil = netgossip.Majority, tableNow+3*sec
	case "split":
		in.Outcome = netgossip.EqualSplit
	default:
		in.Outcome = netgossip.Minority
	}
	in.Arbiter = v[1] != "off"
	in.Split = map[string]tie.State{
		"off": tie.Unavailable, "none": tie.None, "pending": tie.Pending,
		"won": tie.Won, "lost": tie.Lost, "unavailable": tie.Unavailable,
	}[v[1]]
	if v[1] == "won" {
		in.SplitUntil = tableNow + 2*sec
	}
	in.API, in.APIAsked = v[2] != "off", v[2] == "yes" || v[2] == "no"
	if v[2] == "yes" {
		in.APIUntil = tableNow + 4*sec
	}
	in.HoldUntil = map[string]boottime.Instant{"open": tableNow + 5*sec, "over": tableNow - sec, "never": 0}[v[3]]
	in.HadQuorum, in.Disarm, in.LUNLostAsksAPI = v[4] == "yes", v[5] != "no", v[6] == "yes"
	in.Guarded, in.Released = v[5] == "untold" || v[5] == "told", v[5] == "told"
	if len(v) > 7 {
		in.AtOdds = v[8] == "odds"
		in.ByLUN, in.LUNIsolated, in.LUNLost = v[7] == "counting", v[7] == "isolating", v[7] == "missing"
		in.Excluded, in.Asking = v[7] == "elsewhere", v[7] == "asking"
		if v[7] == "vacant" {
			in.Vacant = tableNow + 7*sec
		}
	}
	return in
}

type tableRow struct {
	line int
	in   []string
	out  []string // action, reason, quorum
}

func readTable(t *testing.T) []tableRow {
	t.Helper()
	f, err := os.Open("testdata/decision_table.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []tableRow
	s := bufio.NewScanner(f)
	for line := 1; s.Scan(); line++ {
		if text := strings.TrimSpace(s.Text()); text != "" && text[0] != '#' {
			left, right, ok := strings.Cut(text, "|")
			r := tableRow{line, strings.Fields(left), strings.Fields(right)}
			if !ok || len(r.in) != len(columns) || len(r.out) != 3 {
				t.Fatalf("line %d: want %d columns | 3 columns, found %q", line, len(columns), text)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

func (r tableRow) matches(v []string) bool {
	for i, want := range r.in {
		if want != "-" && want != v[i] {
			return false
		}
	}
	return true
}

func forEveryCombination(f func(v []string)) {
	v := make([]string, len(columns))
	var rec func(int)
	rec = func(i int) {
		if i == len(columns) {
			f(v)
			return
		}
		for _, x := range columns[i].values {
			v[i] = x
			rec(i + 1)
		}
	}
	rec(0)
}

func TestDecisionTable(t *testing.T) {
	rows := readTable(t)
	used := map[int]bool{}
	checked := 0
	forEveryCombination(func(v []string) {
		var row *tableRow
		for i := range rows {
			if rows[i].matches(v) {
				row = &rows[i]
				break
			}
		}
		if row == nil {
			t.Errorf("%v: no row", v)
			return
		}
		used[row.line] = true
		checked++
		in := inputsOf(v)
		d := Decide(&in)
		quorum := row.out[2] == "yes" || row.out[2] == "tally" && v[0] == "majority"
		if d.Action.String() != row.out[0] || d.Reason.String() != row.out[1] || d.Quorum != quorum {
			t.Errorf("%v: %v %v quorum=%v, line %d says %v", v, d.Action, d.Reason, d.Quorum, row.line, row.out)
		}
	})
	for _, r := range rows {
		if !used[r.line] {
			t.Errorf("line %d matches nothing", r.line)
		}
	}
	t.Logf("%d combinations, %d rows", checked, len(rows))
}

// The invariants must be true for every combination, every policy and every instant, independent of the table.
func TestDecisionInvariants(t *testing.T) {
	forEveryCombination(func(v []string) {
		for _, policy := range []LossPolicy{LossFence, LossExclude, LossWait} {
			for _, stopping := range []bool{false, true} {
				in := inputsOf(v)
				in.OnLoss, in.Stopping = policy, stopping
				checkInvariants(t, fmt.Sprint(v, policy, stopping), &in)
			}
		}
	})
}

func checkInvariants(t *testing.T, name string, in *Inputs) {
	t.Helper()
	d := Decide(in)
	if d.Action == 0 || d.Reason.String() == "invalid" {
		t.Errorf("%s: no action or reason: %+v", name, d)
	}
	feeds := d.Action == Feed || d.Action == Hold
	if feeds && d.Until <= in.Now {
		t.Errorf("%s: permission without time: %+v", name, d)
	}
	if d.Action == Starve && d.Until != 0 {
		t.Errorf("%s: no permission, yet a deadline: %+v", name, d)
	}
	byLUN := d.Action == Hold && !d.Quorum
	if d.Action == Hold && d.Until > in.HoldUntil && !(byLUN && d.Until <= in.Vacant) {
		t.Errorf("%s: held beyond the arbitration budget, and beyond what the LUN shows", name)
	}
	if byLUN && (in.Excluded || in.LUNIsolated || !in.HadQuorum) {
		t.Errorf("%s: held by the LUN although others live", name)
	}
	if in.Disarm && !in.Guarded && d.Action != Disarm {
		t.Errorf("%s: a disarm signal was overruled by %v", name, d.Action)
	}
	// Peers that do not know of the disarm may rely on this node's death.
	if in.Guarded && !in.Released && d.Action == Disarm {
		t.Errorf("%s: disarmed behind the peers' backs", name)
	}
	if in.OnLoss == LossFence && feeds && !d.Quorum && !byLUN {
		t.Errorf("%s: fed without quorum under the policy fence", name)
	}
	if !in.HadQuorum && feeds && !d.Quorum {
		t.Errorf("%s: the loss policy granted feeding to a node that never had quorum", name)
	}
	// If evidence determines the deadline, the policy does not change it.
	if d.Reason == ReasonNetworkQuorum && d.Until != in.QuorumUntil {
		t.Errorf("%s: the verdict outlives its evidence", name)
	}
}

func TestExpiredEvidenceIsNoMajority(t *testing.T) {
	in := inputsOf([]string{"majority", "off", "off", "never", "yes", "no", "no"})
	in.QuorumUntil = in.Now
	if d := Decide(&in); d.Action == Feed {
		t.Fatalf("fed on evidence that has just expired: %+v", d)
	}
}

func TestExpiredGrantFallsBackToTheBudget(t *testing.T) {
	in := inputsOf([]string{"split", "won", "off", "over", "yes", "no", "no"})
	in.SplitUntil = in.Now
	if d := Decide(&in); d.Action != Starve || d.Reason != ReasonSplitUndecided {
		t.Fatalf("%+v", d)
	}
}

func TestLossPolicies(t *testing.T) {
	for _, tc := range []struct {
		policy LossPolicy
		had    string
		want   Action
	}{
		{LossFence, "yes", Starve}, {LossExclude, "yes", Feed}, {LossWait, "yes", Feed},
		{LossFence, "no", Starve}, {LossExclude, "no", Starve}, {LossWait, "no", Starve},
	} {
		in := inputsOf([]string{"minority", "off", "off", "over", tc.had, "no", "no"})
		in.OnLoss = tc.policy
		if d := Decide(&in); d.Action != tc.want || d.Quorum {
			t.Errorf("%v, had quorum %s: %+v, want %v", tc.policy, tc.had, d, tc.want)
		}
	}
}

func TestReasonsHaveDistinctNames(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Reasons() {
		if s := r.String(); s == "" || s == "invalid" || seen[s] {
			t.Errorf("reason %d: name %q", r, s)
		} else {
			seen[s] = true
		}
	}
}

func TestBudget(t *testing.T) {
	b := Budget{MaxAge: 4 * time.Second, Arbitrate: 10 * time.Second, Grant: 5 * time.Second, Feed: 5 * time.Second, Margin: time.Second}.WithWatchdog(30 * time.Second)
	if b.Majority() != 70*time.Second || b.Tie() != 80*time.Second {
		t.Errorf("majority %v, tie %v", b.Majority(), b.Tie())
	}
	b.Arbitrate, b.Grant = 0, 20*time.Second // a long grant outlives a short arbitration
	if b.Tie() != 86*time.Second {
		t.Errorf("tie %v", b.Tie())
	}
}
