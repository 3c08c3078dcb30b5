package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program. It returns 0 if every mutant was caught, 1 if not, and 2 on bad usage.
func run(ctx context.Context, args []string, out, diag io.Writer) int {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(diag)
	only := flags.String("run", "", "take only mutants whose `rule: description` matches this regular expression")
	list := flags.Bool("list", false, "print the list and run nothing")
	verbose := flags.Bool("v", false, "print all failing tests of a mutant, and the output of those that do not compile")
	tests := flags.String("tests", "", "run only tests that match this `regexp`, to see what they catch by themselves")
	timeout := flags.Duration("timeout", 3*time.Minute, "limit for the tests of one mutant; reaching it counts as caught")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintf(diag, "mutants: -run: %v\n", err)
		return 2
	}
	l := &lab{tests: *tests, timeout: *timeout}
	if err := l.find(ctx); err != nil {
		fmt.Fprintf(diag, "mutants: %v\n", err)
		return 1
	}
	all, err := allMutants(l.root)
	if err != nil {
		fmt.Fprintf(diag, "mutants: %v\n", err)
		return 1
	}
	var chosen []mutant
	for _, m := range all {
		if match.MatchString(m.name()) {
			chosen = append(chosen, m)
		}
	}
	if *list {
		for _, m := range chosen {
			fmt.Fprintln(out, m.name())
		}
		return 0
	}
	if err := execute(ctx, l, chosen, *verbose, out); err != nil {
		fmt.Fprintf(diag, "mutants: %v\n", err)
		return 1
	}
	return 0
}

// execute runs the tests once without changes and once for each mutant, and prints a table.
func execute(ctx context.Context, l *lab, chosen []mutant, verbose bool, out io.Writer) error {
	if err := l.open(); err != nil {
		return err
	}
	defer l.close()
	fmt.Fprintf(out, "%d mutants, about %v\n", len(chosen), (time.Duration(len(chosen)) * 4 * time.Second).Round(10*time.Second))
	if r := l.test(ctx, mutant{in: allPackages(chosen)}); r.verdict != survived {
		return fmt.Errorf("the tests fail without any mutant: %s\n%s", strings.Join(r.tests, " "), r.output)
	}
	count := map[verdict]int{}
	for _, m := range chosen {
		r := l.test(ctx, m)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		count[r.verdict]++
		fmt.Fprintf(out, "%-9s %-80s %s\n", r.verdict, m.name(), r.by(verbose))
		if verbose && r.verdict != caught {
			fmt.Fprintln(out, r.output)
		}
	}
	fmt.Fprintf(out, "%d caught, %d survived, %d broken\n", count[caught], count[survived], count[broken])
	if count[caught] != len(chosen) {
		return errors.New("not every mutant is caught: write the test that fails without the guard, or correct the list")
	}
	return nil
}

func allPackages(ms []mutant) []string {
	seen := map[string]bool{}
	var out []string
	for _, m := range ms {
		for _, p := range m.in {
			if !seen[p] {
				seen[p] = true
				out = append(out, p)
			}
		}
	}
	return out
}
