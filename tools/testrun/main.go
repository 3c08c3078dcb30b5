// Testrun runs go test and prints a readable report: a line for each package, only the output of what failed, why
// tests were skipped, and at the end one line of counts.
//
//	cd tools && go run ./testrun -C .. -- ./...             # go test ./...
//	cd tools && go run ./testrun -C .. -fuzz 10s -- ./...   # every fuzz target, 10s each
//
// It needs only Go. The exit code is 0 if nothing failed, 1 if something did, and 2 if it was called in a wrong way.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: testrun [-C DIR] [-log] [-fuzz DURATION] -- [FLAGS OF GO TEST] PACKAGES\n\n")
		flag.PrintDefaults()
	}
	dir := flag.String("C", ".", "run go test in this folder")
	fuzz := flag.Duration("fuzz", 0, "run every fuzz target of the packages for this long, instead of their tests")
	log := flag.Bool("log", false, "print what passing tests logged, too")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, options{*dir, *fuzz, *log}, flag.Args())
	stop()
	if err != nil {
		if !errors.Is(err, errFailed) {
			fmt.Fprintln(os.Stderr, "testrun:", err)
		}
		os.Exit(1)
	}
}

// errFailed means that the counts contain the details.
var errFailed = errors.New("tests failed")

type options struct {
	dir  string
	fuzz time.Duration // 0: run the tests
	log  bool
}

func run(ctx context.Context, out io.Writer, o options, args []string) error {
	began := time.Now()
	r := newReport(out)
	r.log = o.log
	var err error
	if o.fuzz > 0 {
		err = fuzzAll(ctx, r, o.dir, o.fuzz, args)
	} else {
		err = test(ctx, r, o.dir, args)
	}
	if err != nil {
		return err
	}
	if r.passed+r.failed+r.skipped == 0 {
		r.fail("no test was run", "check the packages and the -run pattern: "+strings.Join(args, " "))
	} else if pattern, depth := askedFor(args); o.fuzz == 0 && r.failed == 0 && r.deepest < depth {
		r.fail("no test has a name that -run "+pattern+" asks for", "")
	}
	r.summary(time.Since(began))
	if r.failed > 0 {
		return errFailed
	}
	return nil
}
