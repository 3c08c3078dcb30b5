package script

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

type stateKey struct{}

// state is what a script has created so far.
type state struct {
	work string
	net  [2]byte // the script's network is 127.net[0].net[1].0/24
	port int     // the gossip port

	agents map[string]*process
	order  []string
	closed []func()
	// occupied contains the ports that are held, by their address; calling the function gives a port up.
	occupied map[string]func() error
	sums     map[string][32]byte
	stderr   string // stderr of the last program that ended
}

func stateOf(ts *testscript.TestScript) *state { return ts.Value(stateKey{}).(*state) }

// networks lists the names of a cluster's SystemNetworks, in order.
var networks = []string{"mgmt", "data"}

// address returns the address of node 1, 2, 3... on a network.
func (s *state) address(network, node int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, s.net[0], s.net[1], byte(100*network + node)})
}

// end kills what is still running.
func (s *state) end() {
	for _, name := range s.order {
		s.agents[name].kill()
	}
	for _, f := range s.closed {
		f()
	}
}

// maxLog is the number of bytes, from the end of a log, that are printed after a failure.
const maxLog = 8 << 10

// logs returns the end of each log of the script's programs.
func (s *state) logs() string {
	var all strings.Builder
	files, _ := filepath.Glob(filepath.Join(s.work, "*.log"))
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if len(text) > maxLog {
			text = text[len(text)-maxLog:]
		}
		fmt.Fprintf(&all, "--- %s\n%s\n", filepath.Base(f), strings.TrimSpace(string(text)))
	}
	return all.String()
}
