// Verify runs every check of the repository that is not an ordinary test. It runs all of them even if one fails, and
// ends with one line of counts.
//
//	cd tools && go run ./verify ..             # all
//	cd tools && go run ./verify .. format vet  # some, by name
//
// It needs only Go. The exit code is 0 if nothing failed, 1 if something did, and 2 if it was called in a wrong way.
// A check that cannot be made on this machine says so and counts as skipped.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: verify REPOSITORY [CHECK...]\n\nChecks:\n")
		for _, c := range checks {
			fmt.Fprintf(flag.CommandLine.Output(), "  %-12s %s\n", c.name, c.what)
		}
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	chosen, err := choose(flag.Args()[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	failed := run(ctx, os.Stdout, flag.Arg(0), chosen)
	stop()
	if failed > 0 {
		os.Exit(1)
	}
}

// check is one check. It returns nil, an error that says what is wrong and what to do, or a skipped.
type check struct {
	name string
	what string
	run  func(ctx context.Context, root string) error
}

// skipped says why a check could not be made.
type skipped struct{ why string }

func (s skipped) Error() string { return s.why }

func choose(names []string) ([]check, error) {
	if len(names) == 0 {
		return checks, nil
	}
	var chosen []check
	for _, n := range names {
		i := slices.IndexFunc(checks, func(c check) bool { return c.name == n })
		if i < 0 {
			return nil, fmt.Errorf("unknown check %q; see -help", n)
		}
		chosen = append(chosen, checks[i])
	}
	return chosen, nil
}

func run(ctx context.Context, out io.Writer, root string, chosen []check) (failed int) {
	passed := 0
	for _, c := range chosen {
		if ctx.Err() != nil {
			break
		}
		began := time.Now()
		err := c.run(ctx, root)
		took := time.Since(began).Seconds()
		var skip skipped
		switch {
		case err == nil:
			passed++
			fmt.Fprintf(out, "ok    %-12s %5.1fs  %s\n", c.name, took, c.what)
		case errors.As(err, &skip):
			fmt.Fprintf(out, "skip  %-12s %5.1fs  %s\n", c.name, took, skip.why)
		default:
			failed++
			fmt.Fprintf(out, "FAIL  %-12s %5.1fs  %s\n", c.name, took, c.what)
			for line := range strings.Lines(strings.TrimRight(err.Error(), "\n") + "\n") {
				fmt.Fprint(out, "      "+line)
			}
		}
	}
	if ctx.Err() != nil {
		failed++
		fmt.Fprintln(out, "FAIL  interrupted")
	}
	fmt.Fprintf(out, "%d passed, %d failed\n", passed, failed)
	return failed
}
