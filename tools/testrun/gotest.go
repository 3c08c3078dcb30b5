package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// command is go test in dir; interrupting the context interrupts it as Ctrl-C would, so
// that tests can clean up.
func command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// test runs go test and feeds the report with its events. Packages in which nothing but the
// race detector's runtime failed are run once more.
func test(ctx context.Context, r *report, dir string, args []string) error {
	if err := testOnce(ctx, r, dir, args); err != nil || len(r.again) == 0 {
		return err
	}
	again, ok := withPackages(args, r.again)
	if !ok {
		r.fail("go test", "no second run: name the packages as relative paths, as in ./...")
		return nil
	}
	r.again, r.secondTime = nil, true
	return testOnce(ctx, r, dir, again)
}

func testOnce(ctx context.Context, r *report, dir string, args []string) error {
	cmd := command(ctx, dir, append([]string{"-json"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := r.read(out)
	if readErr != nil {
		_, _ = io.Copy(io.Discard, out) // let go test end by itself
	}
	return judge(r, cmd.Wait(), readErr)
}

// judge makes sure that a go test which failed is never reported as a success, whatever
// its events said.
func judge(r *report, waitErr, readErr error) error {
	var exit *exec.ExitError
	if waitErr != nil && !errors.As(waitErr, &exit) {
		return waitErr
	}
	if readErr != nil {
		return readErr
	}
	if waitErr != nil && r.failed == 0 && len(r.again) == 0 {
		r.fail("go test", "it ended with "+waitErr.Error()+", but no test of it failed")
	}
	return nil
}

// fuzzAll finds the fuzz targets of the packages and runs one after the other: go test
// takes only one at a time.
func fuzzAll(ctx context.Context, r *report, dir string, each time.Duration, packages []string) error {
	list := command(ctx, dir, append([]string{"-list", "^Fuzz"}, packages...)...)
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("list fuzz targets: %w\n%s", err, out)
	}
	targets := fuzzTargets(out)
	if len(targets) == 0 {
		return errors.New("no fuzz target in these packages")
	}
	fmt.Fprintf(r.out, "%d fuzz targets, %v each\n", len(targets), each)
	for _, t := range targets {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		began := time.Now()
		output, err := fuzz(ctx, r, dir, t, each)
		if err != nil {
			r.fail(t.pkg+" "+t.name, output)
			continue
		}
		r.passed++
		fmt.Fprintf(r.out, "ok    %s %s  %s  %.1fs\n", shorten(t.pkg), t.name, lastProgress(output), time.Since(began).Seconds())
	}
	return nil
}

// fuzz runs one target, once more where it failed for nothing but the end of its time.
func fuzz(ctx context.Context, r *report, dir string, t fuzzTarget, each time.Duration) (output string, err error) {
	for attempt := 1; ; attempt++ {
		// No other test runs. Within a short time on a busy machine go test does not get through the seeds, and calls
		// that a success; as tests they run without -fuzz.
		cmd := command(ctx, dir, "-run", "^"+t.name+"$", "-fuzz", "^"+t.name+"$", "-fuzztime", each.String(), t.pkg)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err = cmd.Run(); err == nil || attempt == fuzzAttempts || ctx.Err() != nil || !fuzzTimeWasUp(out.String(), t.name) {
			return out.String(), err
		}
		fmt.Fprintf(r.out, "again %s %s: the fuzzer took the end of its time for a failure (go.dev/issue/75804)\n", shorten(t.pkg), t.name)
	}
}

type fuzzTarget struct{ pkg, name string }

// fuzzTargets reads the output of go test -list: names, then the package they are in.
func fuzzTargets(list []byte) []fuzzTarget {
	var targets []fuzzTarget
	var names []string
	lines := bufio.NewScanner(bytes.NewReader(list))
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "Fuzz") {
			names = append(names, line)
			continue
		}
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "ok" {
			for _, n := range names {
				targets = append(targets, fuzzTarget{fields[1], n})
			}
			names = nil
		}
	}
	return targets
}

// lastProgress is how many inputs the fuzzer tried, from its last line of progress.
func lastProgress(output string) string {
	last := "no progress printed"
	for line := range strings.Lines(output) {
		if _, rest, ok := strings.Cut(line, "execs: "); ok {
			if n, _, ok := strings.Cut(rest, " "); ok {
				last = n + " inputs"
			}
		}
	}
	return last
}
