package cuts

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// results is what was measured, by system.
type results struct {
	began time.Time
	path  string // of the Markdown file with the tables; "": there is none

	mu   sync.Mutex
	rows []*row // guarded by mu, with what is in them
}

type row struct {
	system   *system
	name     string
	outcomes []outcome
}

// row begins that of a system.
func (r *results) row(h *host, s *system) (*row, error) {
	w := &row{system: s, name: s.name}
	for i, name := range s.version {
		version, err := h.version(name)
		if err != nil {
			return nil, err
		}
		w.name += map[bool]string{true: ": ", false: ", "}[i == 0] + name + " " + version
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, w)
	return w, nil
}

// add notes an outcome, and says so.
func (r *results) add(w *row, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.outcomes = append(w.outcomes, o)
	fmt.Printf("%5.0fs  load %4.1f  %s: %v: reset %s, idle %s, the others may act %s", time.Since(r.began).Seconds(), load(),
		w.system.name, o.fault, known(o.reset), known(o.idle), known(o.told))
	if o.others > 0 {
		fmt.Printf(", and %d of the others reset", o.others)
	}
	fmt.Println()
}

func known(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// spread is least, median and greatest of those that are not 0.
func spread(all []time.Duration) string {
	all = slices.DeleteFunc(slices.Clone(all), func(d time.Duration) bool { return d == 0 })
	if len(all) == 0 {
		return "-"
	}
	slices.Sort(all)
	least, middle, most := all[0], all[len(all)/2], all[len(all)-1]
	if most-least < 50*time.Millisecond {
		return known(middle)
	}
	return fmt.Sprintf("%.1f / %.1f / %s", least.Seconds(), middle.Seconds(), known(most))
}

// lengths are those of the cuts, in order.
func (r *results) lengths() (all []time.Duration) {
	for _, w := range r.rows {
		for _, o := range w.outcomes {
			if o.fault.length > 0 {
				all = append(all, o.fault.length)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// counts is of how many cuts of a length something happened, of how many.
func (w *row) counts(length time.Duration, happened func(outcome) bool) string {
	n, all := 0, 0
	for _, o := range w.outcomes {
		if o.fault.length == length {
			all++
			if happened(o) {
				n++
			}
		}
	}
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", n, all)
}

func (w *row) of(is func(fault) bool, f func(outcome) time.Duration) (all []time.Duration) {
	for _, o := range w.outcomes {
		if is(o.fault) {
			all = append(all, f(o))
		}
	}
	return all
}

func wasReset(o outcome) bool { return o.reset > 0 || o.others > 0 }

// cuts is the table of cuts that end.
func (r *results) cuts() string {
	var b strings.Builder
	lengths := r.lengths()
	b.WriteString("| system |")
	for _, l := range lengths {
		fmt.Fprintf(&b, " %v s |", l.Seconds())
	}
	b.WriteString(" after |\n|---|" + strings.Repeat("---|", len(lengths)+1) + "\n")
	transient := func(f fault) bool { return f.length > 0 }
	for _, w := range r.rows {
		line := func(name string, happened func(outcome) bool, when func(outcome) time.Duration) {
			fmt.Fprintf(&b, "| %s |", name)
			for _, l := range lengths {
				fmt.Fprintf(&b, " %s |", w.counts(l, happened))
			}
			fmt.Fprintf(&b, " %s |\n", spread(w.of(transient, when)))
		}
		line(w.name, wasReset, func(o outcome) time.Duration { return o.reset })
		line(w.system.quorum(), func(o outcome) bool { return o.idle > 0 }, func(o outcome) time.Duration { return o.idle })
	}
	return b.String()
}

// ends is the table of machines that do not come back.
func (r *results) ends() string {
	var b strings.Builder
	b.WriteString("| system | runs | cut off: reset after | the others may act after | power lost: the others may act after |\n|---|---|---|---|---|\n")
	cutOff, power := func(f fault) bool { return f == fault{} }, func(f fault) bool { return f.power }
	reset, told := func(o outcome) time.Duration { return o.reset }, func(o outcome) time.Duration { return o.told }
	for _, w := range r.rows {
		if runs := len(w.of(cutOff, reset)); runs > 0 {
			fmt.Fprintf(&b, "| %s | %d | %s | %s | %s |\n", w.name, runs, spread(w.of(cutOff, reset)), spread(w.of(cutOff, told)), spread(w.of(power, told)))
		}
	}
	return b.String()
}

func (r *results) String() string { return r.cuts() + "\n" + r.ends() }

const (
	cutsBegin = "<!-- transient cuts in machines -->\n"
	endsBegin = "<!-- machines that do not come back -->\n"
	tableEnd  = "<!-- end of machines -->\n"
)

// write brings the tables in the file up to date.
func (r *results) write() error {
	if r.path == "" || len(r.rows) == 0 {
		return nil
	}
	text, err := os.ReadFile(r.path)
	if err != nil {
		return err
	}
	whole, err := replace(string(text), cutsBegin, r.cuts())
	if err != nil {
		return err
	}
	if whole, err = replace(whole, endsBegin, r.ends()); err != nil {
		return err
	}
	return os.WriteFile(r.path, []byte(whole), 0o644)
}

// replace puts a table after a mark in place of the one that is there.
func replace(text, begin, table string) (string, error) {
	before, rest, ok := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		return "", errors.New("no place for the table: " + strings.TrimSpace(begin))
	}
	return before + begin + "\n" + table + "\n" + tableEnd + after, nil
}

func TestTables(t *testing.T) {
	r := &results{}
	w, err := r.row(nil, agent("fast"))
	if err != nil {
		t.Fatal(err)
	}
	s := time.Second
	w.outcomes = []outcome{
		{fault: fault{length: 3 * s}}, {fault: fault{length: 3 * s}, reset: 4 * s}, {fault: fault{length: 10 * s}, reset: 6 * s},
		{fault: fault{length: 10 * s}, others: 1}, {reset: 5 * s, told: 8 * s}, {fault: fault{power: true}, told: 20 * s},
	}
	want := "| system | 3 s | 10 s | after |\n|---|---|---|---|\n| fencing-agent, `fast` | 1 of 2 | 2 of 2 | 4.0 / 6.0 / 6.0 s |\n" +
		"| its quorum, lost | 0 of 2 | 0 of 2 | - |\n"
	if got := r.cuts(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got, want := r.ends(), "| fencing-agent, `fast` | 1 | 5.0 s | 8.0 s | 20.0 s |\n"; !strings.HasSuffix(got, want) {
		t.Errorf("%s\nwant at its end\n%s", got, want)
	}
	whole, err := replace("a\n"+cutsBegin+"old\n"+tableEnd+"b\n", cutsBegin, "new\n")
	if want := "a\n" + cutsBegin + "\nnew\n\n" + tableEnd + "b\n"; err != nil || whole != want {
		t.Errorf("%q, %v, want %q", whole, err, want)
	}
	if _, err := replace("a", cutsBegin, "new\n"); err == nil {
		t.Error("a table without a place was written")
	}
}
