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
	// binariesEnv names the variable with a folder of fencing-agent and fencectl. Without it they are built.
	binariesEnv = "FENCING_BIN"
	// module is the path of the repository's root from this folder.
	module = "../.."
	// standstill is the longest time for which the machine may stand still without excusing what agents do.
	standstill = time.Second
	// scriptsAtOnce is larger than the number of processors, because scripts mostly wait.
	scriptsAtOnce = 6
)

var (
	programs  string            // folder of the programs under test; build sets it
	version   = "v0.0.1-script" // version of the programs; programs from binariesEnv have another one
	temporary string            // removed at the end
)

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(scriptsAtOnce)) // it fails only if it is no number
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
	// Scripts that run as nobody need this.
	if err := os.Chmod(temporary, 0o755); err != nil {
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

// readSources opens every folder with sources of the programs. `go test` then notices that a result of an older program
// is out of date.
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

// excusing is a test whose scripts are skipped, rather than failed, if the machine stood still meanwhile: agents that
// stand still together rightly lose sight of each other.
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
		t.Skipf("this proves nothing: the machine stood still for %v", took)
	}
	t.T.FailNow()
}

// setup gives the script its own network, ports and programs.
func setup(e *testscript.Env) error {
	// Programs that run as nobody need this.
	for _, dir := range []string{filepath.Dir(e.WorkDir), e.WorkDir} {
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
			logs := s.logs()                      // read now, because the folder is removed next
			t.Cleanup(func() { e.T().Log(logs) }) // printed after the line that failed, which a reader needs first
		}
	})
	return nil
}

// freePort finds a port below those that the kernel assigns by itself.
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
