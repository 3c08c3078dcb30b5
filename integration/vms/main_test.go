package vms

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencing-agent/fencing-agent/integration/vms/image"
	"github.com/fencing-agent/fencing-agent/integration/vms/machine"
)

// enableEnv names the variable that enables these tests, which need QEMU, Debian's packages and several minutes.
const enableEnv = "FENCING_TEST_VMS"

// cacheEnv names the variable with the folder for unpacked packages. Without it they are fetched for each run.
const cacheEnv = "FENCING_VMS_CACHE"

// kernelEnv names the variable with Debian's package of the machines' kernel, if it is not the one for virtual
// machines. Its unpacked packages have a separate folder.
const kernelEnv = "FENCING_VMS_KERNEL"

// nextVersion is the version of the second build of the agent, for the upgrade.
const nextVersion = "v999.0.0-next"

// built is what all labs share. TestMain sets it if these tests are enabled.
var built struct {
	tree     string // the unpacked packages
	guest    string
	tsc      uint64 // kHz
	programs string // folder of fencing-agent, fencing-agent.next, fencectl, holder and condemned
}

// interrupted contains what Ctrl-C must close.
var interrupted struct {
	sync.Mutex
	labs map[*lab]bool // guarded by Mutex
}

func TestMain(m *testing.M) {
	if os.Getenv(enableEnv) == "" || image.Missing() != nil {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "fencing-vms-")
	if err == nil {
		err = prepare(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.RemoveAll(dir)
		os.Exit(1)
	}
	signals := make(chan os.Signal, 1)
	// SIGPIPE means that the reader of the tests' output is gone, and that it did not pass Ctrl-C on.
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	go func() {
		s := <-signals
		fmt.Fprintf(os.Stderr, "%v: ending all machines\n", s)
		interrupted.Lock() // never unlocked, so that no further lab begins
		for l := range interrupted.labs {
			l.end()
			l.removeFiles()
		}
		os.RemoveAll(dir)
		os.Exit(130)
	}()
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// prepare fetches the packages and builds the programs in dir.
func prepare(dir string) error {
	cache := os.Getenv(cacheEnv)
	if cache == "" {
		cache = dir
	}
	progress := func(text string) { fmt.Fprintln(os.Stderr, text) }
	kernel := os.Getenv(kernelEnv)
	var err error
	if built.tree, err = image.Fetch(context.Background(), filepath.Join(cache, kernel), cmp.Or(kernel, image.CloudKernel), progress); err != nil {
		return err
	}
	built.tsc = machine.TSCKilohertz()
	built.guest = filepath.Join(dir, "guest")
	built.programs = filepath.Join(dir, "programs")
	var agentFlags []string
	m, err := chosenMutant()
	if err != nil {
		return err
	}
	if m != nil {
		changed, err := overlay(dir, *m)
		if err != nil {
			return err
		}
		agentFlags = append(agentFlags, changed)
	}
	progress("building the programs for the machines")
	for _, b := range []struct{ out, version, pkg string }{
		{built.guest, "", "./guest"},
		{filepath.Join(built.programs, "fencing-agent"), "v998.0.0", "../../cmd/fencing-agent"},
		{filepath.Join(built.programs, "fencing-agent.next"), nextVersion, "../../cmd/fencing-agent"},
		{filepath.Join(built.programs, "fencectl"), "", "../../cmd/fencectl"},
		{filepath.Join(built.programs, "holder"), "", "./holder"},
		{filepath.Join(built.programs, "condemned"), "", "./condemned"},
		{filepath.Join(built.programs, "fencing-executor"), "", "../../cmd/fencing-executor"},
	} {
		if err := build(b.out, b.version, b.pkg, agentFlags...); err != nil {
			return err
		}
	}
	return nil
}

// build compiles a program.
func build(out, version, pkg string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w -X main.version=" + version, "-o", out}, flags...)
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, text)
	}
	return nil
}

// need skips a test that cannot run here or was not enabled.
func need(t *testing.T) {
	t.Helper()
	if os.Getenv(enableEnv) == "" {
		t.Skipf("these tests run only with %s=1; they run the agents in virtual machines (make test-vms)", enableEnv)
	}
	if err := image.Missing(); err != nil {
		t.Fatal(err)
	}
}
