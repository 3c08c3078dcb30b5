package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// command returns a go command that runs in dir and whose errors are printed.
func command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := interrupted(ctx, dir, "go", args...)
	cmd.Stderr = os.Stderr
	return cmd
}

// interrupted returns a program that runs in dir. The end of the context interrupts it like Ctrl-C, so that tests can
// clean up.
func interrupted(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}

// test runs go test and feeds the report with its events. Packages in which only the race detector's runtime failed are
// run once more.
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
	// Twice as many packages at a time as go test would run, because many tests wait in real time. A -p in args counts.
	atOnce := fmt.Sprintf("-p=%d", 2*runtime.GOMAXPROCS(0))
	cmd := command(ctx, dir, append([]string{"test", "-json", atOnce}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := r.read(out)
	if readErr != nil {
		_, _ = io.Copy(io.Discard, out) // so that go test can end
	}
	return judge(r, cmd.Wait(), readErr)
}

// judge makes sure that a go test that failed is never reported as a success, whatever its events say.
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

// fuzzAll finds the fuzz targets of the packages and runs them one after the other. Each package is built once, and of
// its imports only those in this module are instrumented: go test -fuzz would also compile all of Kubernetes' client.
func fuzzAll(ctx context.Context, r *report, dir string, each time.Duration, packages []string) error {
	out, err := command(ctx, dir, append([]string{"list", "-f", "{{.ImportPath}}\t{{.Dir}}"}, packages...)...).Output()
	if err != nil {
		return fmt.Errorf("list packages: %w", err)
	}
	cache, err := command(ctx, dir, "env", "GOCACHE").Output()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	for line := range strings.Lines(string(out)) {
		pkg, folder, _ := strings.Cut(strings.TrimSpace(line), "\t")
		targets, err := fuzzTargets(folder)
		if err != nil {
			return err
		}
		if len(targets) == 0 {
			continue
		}
		binary := filepath.Join(work, "test")
		build := command(ctx, dir, "test", "-c", "-o", binary, "-gcflags=./...=-d=libfuzzer", pkg)
		build.Stderr = nil
		if output, err := build.CombinedOutput(); err != nil {
			r.fail(shorten(pkg), string(output))
			continue
		}
		for _, name := range targets {
			// No other test runs. On a busy machine, not all seeds may be run within a short time; without -fuzz they
			// run as tests.
			fuzz(ctx, r, shorten(pkg), name, func() *exec.Cmd {
				return interrupted(ctx, folder, binary, "-test.run=^"+name+"$", "-test.fuzz=^"+name+"$", "-test.fuzztime="+each.String(),
					"-test.fuzzcachedir="+filepath.Join(strings.TrimSpace(string(cache)), "fuzz", pkg))
			})
		}
	}
	return ctx.Err()
}

// fuzz runs one target, and runs it again if it failed only because its time was up.
func fuzz(ctx context.Context, r *report, pkg, name string, target func() *exec.Cmd) {
	began := time.Now()
	for attempt := 1; ; attempt++ {
		output, err := target().CombinedOutput()
		switch {
		case err == nil:
			r.passed++
			fmt.Fprintf(r.out, "ok    %s %s  %s  %.1fs\n", pkg, name, lastProgress(string(output)), time.Since(began).Seconds())
			return
		case attempt == fuzzAttempts || ctx.Err() != nil || !fuzzTimeWasUp(string(output), name):
			r.fail(pkg+" "+name, string(output))
			return
		}
		fmt.Fprintf(r.out, "again %s %s: the fuzzer treated the end of its time as a failure (go.dev/issue/75804)\n", pkg, name)
	}
}

var fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// fuzzTargets returns the names of the fuzz targets of the package in a folder.
func fuzzTargets(folder string) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		for _, m := range fuzzTarget.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names, err
}

// lastProgress returns the number of inputs that the fuzzer tried, from its last line of progress.
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
