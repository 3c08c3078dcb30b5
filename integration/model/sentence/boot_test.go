package sentence

import (
	"os"
	"strings"
	"testing"
)

func long() bool { return os.Getenv("SENTENCE_LONG") != "" }

func way(steps []string) string { return "\n  " + strings.Join(steps, "\n  ") }

// What may happen in a search of boots.
var (
	usual  = BootBudget{Kills: 1, Starts: 1, Blind: 1, Cuts: 2, Hangs: 1, Boots: 1, Stops: 1}
	all    = BootBudget{Kills: 2, Starts: 1, Blind: 1, Cuts: 2, Hangs: 1, Refusals: 1, Boots: 1, Stops: 1}
	oneEnd = BootBudget{Kills: 1, Cuts: 1, Refusals: 1}
)

type bootSearch struct {
	name  string
	long  bool // make model KIND=sentence
	rules BootRules
	left  BootBudget
	want  string // how what is found begins; "" is nothing
}

var bootSearches = []bootSearch{
	{"all rules", false, BootRules{}, usual, ""},
	{"all rules, the driver refuses", false, BootRules{}, BootBudget{Kills: 1, Starts: 1, Blind: 1, Cuts: 2, Refusals: 1}, ""},
	{"all rules, two kills", true, BootRules{}, all, ""},
	{"P2: the feeder is condemned by nothing but not being counted", true, BootRules{CanFeed: true}, all, ""},
	{"P2: a planned stop disarms, and nobody counts", true, BootRules{CanDisarm: true}, all, ""},
	{"P2: the view is kept, and who knows does not count", true, BootRules{KeepsView: true}, all, ""},
	{"P2: fed, and counted", false, BootRules{CanFeed: true, KeepsView: true, Counted: true}, usual, "fed after it was told"},
	{"P2: disarmed, and counted", false, BootRules{CanDisarm: true, KeepsView: true, Counted: true}, usual, "disarmed after it was told"},
	{"P2: told before it was read back", false, BootRules{TellsFirst: true}, oneEnd, "FENCED of a boot that runs"},
	{"P2: not read back", false, BootRules{NoReadBack: true}, oneEnd, "FENCED of a boot that runs"},
	{"P3: a long timeout is told", false, BootRules{TellsLong: true}, all, "armed after it was told"},
	{"P2': a new agent neither looks nor waits", false, BootRules{NoLook: true}, usual, "armed after it was told"},
	{"P2': it waits from its own start", false, BootRules{SoonWait: true}, usual, "armed after it was told"},
	{"P3: B is T", false, BootRules{Bound: short}, usual, "FENCED of a boot that runs"},
	{"P3: B is T + r", false, BootRules{Bound: short + late}, usual, "FENCED of a boot that runs"},
	{"P3: B is 2 T", false, BootRules{Bound: 2 * short}, usual, "FENCED of a boot that runs"},
	{"P4: B begins with the read", false, BootRules{FromBegin: true}, usual, "FENCED of a boot that runs"},
	{"P6: a bit without a boot", false, BootRules{NoBoot: true}, usual, "FENCED of a boot that was never condemned"},
	{"P6: carried on by the next boot", false, BootRules{Carried: true}, usual, "FENCED of a boot that was never condemned"},
}

// Without a rule the search finds what the rule is there for, by the shortest history, and with all of them nothing.
func TestBoot(t *testing.T) {
	for _, c := range bootSearches {
		t.Run(c.name, func(t *testing.T) {
			if c.long && !long() {
				t.Skip("a long search: make model KIND=sentence")
			}
			m := &Boot{c.rules}
			f := Search(m, m.Root(c.left), 3_000_000)
			t.Logf("%d states", f.States)
			if f.Cut || !strings.HasPrefix(f.Wrong, c.want) || c.want == "" && f.Wrong != "" {
				t.Errorf("found %q, want %q, cut %t", f.Wrong, c.want, f.Cut)
			}
			if f.Wrong != "" {
				t.Logf("%s:%s\n%s", f.Wrong, way(f.Way), &f.State)
			}
		})
	}
}
