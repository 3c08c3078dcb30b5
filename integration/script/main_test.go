package script

import (
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fencing-agent/fencing-agent/integration/observe"
	"github.com/fencing-agent/fencing-agent/integration/race"
)

const (
	// binariesEnv names a folder with fencing-agent and fencectl; without it they are built.
	binariesEnv = "FENCING_BIN"
	// module is the root of the repository, seen from here.
	module = "../.."
	// standstill is how long the machine may stand still without excuse for what agents do.
	standstill = time.Second
	// scriptsAtOnce is more than there are processors: scripts mostly wait.
	scriptsAtOnce = 6
)

var (
	programs  string            // folder of the programs under test, set by build
	version   = "v0.0.1-script" // of the programs; of those that were given it is another
	temporary string            // to be removed at the end
)

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(scriptsAtOnce)) // fails for no number only
	}
	code := m.Run()
	if temporary != "" {
		_ = os.RemoveAll(temporary)
	}
	os.Exit(code)
}

var build = sync.OnceValue(func() error {
	if programs = os.Getenv(binariesEnv); programs != "" {
		var err error
		if programs, err = filepath.Abs(programs); err != nil {
			return err
		}
		out, err := exec.Command(programs+"/fencing-agent", "--version").Output()
		version = strings.TrimSpace(strings.TrimPrefix(string(out), "fencing-agent "))
		return err
	}
	var err error
	if temporary, err = os.MkdirTemp("", "fencing-script-"); err != nil {
		return err
	}
	if err := os.Chmod(temporary, 0o755); err != nil { // for scripts that run as nobody
		return err
	}
	programs = filepath.Join(temporary, "bin")
	args := []string{"build", "-ldflags", "-X main.version=" + version, "-o", programs + "/"}
	if race.Detector {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, module+"/cmd/fencing-agent", module+"/cmd/fencectl")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the programs under test: %w\n%s", err, out)
	}
	return readSources()
})

// readSources opens every folder that the programs are made of, so that `go test` does
// not take a result for current that an older program gave.
func readSources() error {
	for _, folder := range []string{"api", "boottime", "cmd", "diskquorum", "k8s", "netgossip", "watchdog"} {
		err := filepath.WalkDir(filepath.Join(module, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			return f.Close()
		})
		if err != nil {
			return err
		}
	}
	_, err := os.Stat(filepath.Join(module, "go.sum"))
	return err
}

func TestScripts(t *testing.T) {
	if err := build(); err != nil {
		t.Fatal(err)
	}
	stalls := observe.NewStalls()
	t.Cleanup(stalls.Close)
	testscript.RunT(excusing{t, stalls, time.Now()}, testscript.Params{
		Dir: "testdata", Setup: setup, Condition: condition, Cmds: commands,
		RequireExplicitExec: true, RequireUniqueNames: true,
	})
}

// excusing is a test whose scripts do not fail, but are skipped, if the machine stood still in
// them: agents that stand still together rightly lose sight of each other.
type excusing struct {
	*testing.T
	stalls *observe.Stalls
	began  time.Time
}

func (t excusing) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(inner *testing.T) { f(excusing{inner, t.stalls, time.Now()}) })
}

func (t excusing) Verbose() bool { return testing.Verbose() }

func (t excusing) FailNow() {
	t.Helper()
	if took := t.stalls.Since(t.began); took >= standstill {
		t.Skipf("says nothing: the machine stood still for %v", took)
	}
	t.T.FailNow()
}

// setup gives the script its own network, ports and programs.
func setup(e *testscript.Env) error {
	for _, dir := range []string{filepath.Dir(e.WorkDir), e.WorkDir} { // for programs that run as nobody
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	s := &state{work: e.WorkDir, net: [2]byte{byte(1 + rand.IntN(254)), byte(rand.IntN(256))}, agents: map[string]*process{}, occupied: map[string]func() error{}}
	e.Values[stateKey{}] = s
	var err error
	if s.port, err = freePort(s.address(0, 1)); err != nil {
		return err
	}
	e.Setenv("PATH", programs+string(os.PathListSeparator)+e.Getenv("PATH"))
	e.Setenv("NET", fmt.Sprintf("127.%d.%d", s.net[0], s.net[1]))
	e.Setenv("VERSION", regexp.QuoteMeta(version))
	e.Setenv("PORT", strconv.Itoa(s.port))
	e.Defer(func() {
		s.end()
		t, ok := e.T().(interface {
			Failed() bool
			Cleanup(func())
		})
		if ok && t.Failed() {
			logs := s.logs()                      // the folder goes next
			t.Cleanup(func() { e.T().Log(logs) }) // after the line that failed, which is what a reader wants first
		}
	})
	return nil
}

// freePort finds a port below those that the kernel gives away by itself.
func freePort(at netip.Addr) (int, error) {
	for range 100 {
		port := 10000 + rand.IntN(20000)
		l, err := net.Listen("tcp", netip.AddrPortFrom(at, uint16(port)).String())
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free port at %v", at)
}
