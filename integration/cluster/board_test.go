package cluster_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencing-agent/fencing-agent/integration/kube/controlplane"
)

// board is a management board that answers IPMI in the network of the cluster. It is ipmi_sim of OpenIPMI, whose
// chassis switch asks this process. The switch function then switches a node or its port.
type board struct {
	port int

	mu   sync.Mutex
	on   bool
	lies bool                // it reports off, and switches nothing
	do   func(on bool) error // the switch function; called with mu
	at   map[bool]time.Time  // when it last switched on or off
	errs []error
	cmd  *exec.Cmd

	listener net.Listener
}

// close ends the board.
func (b *board) close() error { return errors.Join(b.listener.Close(), b.cmd.Process.Kill()) }

const boardAddress = "10.0.0.100"

// askHarness passes a question of ipmi_sim to this process, and the answer back.
const askHarness = `#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/%d || exit 1
echo "$@" >&3
cat <&3
`

// boardPrograms lists what the boards need on the host.
var boardPrograms = []string{"/usr/bin/ipmi_sim", "/bin/bash"}

// startBoard starts a board that is switched on.
func startBoard(t *testing.T, dir string, port int, do func(on bool) error) *board {
	t.Helper()
	for _, program := range boardPrograms {
		if _, err := os.Stat(program); err != nil {
			t.Fatalf("%v: apt-get install openipmi", err)
		}
	}
	b := &board{port: port, on: true, do: do, at: map[bool]time.Time{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.listener = l
	go b.serve(l)
	dir = filepath.Join(dir, fmt.Sprintf("board-%d", port))
	control, lan, emu := filepath.Join(dir, "control"), filepath.Join(dir, "lan.conf"), filepath.Join(dir, "bmc.emu")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		control: fmt.Sprintf(askHarness, l.Addr().(*net.TCPAddr).Port),
		lan: fmt.Sprintf(`name "board"
set_working_mc 0x20
  startlan 1
    addr %s %d
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "%s 0x20"
  user 1 true "" "test" user 10 none md2 md5 straight
  user 2 true "fencing" "%s" admin 10 none md2 md5 straight
`, boardAddress, port, control, boardPassword),
		emu: "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\nsel_enable 0x20 1000 0x0a\nmc_enable 0x20\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	b.cmd = exec.Command("/usr/bin/ipmi_sim", "-c", lan, "-f", emu, "-s", dir, "-n")
	b.cmd.Stdout, b.cmd.Stderr = log, log
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := controlplane.StartChild(b.cmd, func(error) {}); err != nil {
		t.Fatal(err)
	}
	return b
}

// serve answers ipmi_sim until the listener is closed.
func (b *board) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if err == nil {
			_, _ = c.Write([]byte(b.answer(strings.Fields(line)))) // otherwise ipmi_sim prints an error
		}
		_ = c.Close()
	}
}

// answer handles one call of the chassis control: an address, get or set, and an item.
func (b *board) answer(words []string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out strings.Builder
	for i := 2; i < len(words); i++ {
		switch {
		case words[1] == "get" && words[i] == "power":
			fmt.Fprintf(&out, "power:%d\n", map[bool]int{true: 1}[b.on])
		case words[1] == "set" && words[i] == "power" && i+1 < len(words):
			i++
			b.set(words[i] != "0")
		case words[1] == "set":
			i++
		}
	}
	return out.String()
}

// set switches. The caller holds mu.
func (b *board) set(on bool) {
	if on == b.on {
		return
	}
	if !b.lies {
		if err := b.do(on); err != nil {
			b.errs = append(b.errs, err)
			return
		}
	}
	b.on, b.at[on] = on, time.Now()
}

// has reports whether the board's switch is on.
func (b *board) has() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.on
}

// when returns when the board last switched on or off.
func (b *board) when(on bool) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at[on]
}

// lie makes the board report what it was told to do without doing it. When it ends, the board reports the truth again.
func (b *board) lie(lies bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lies = lies; !lies {
		b.on = true
	}
}

// deaf makes the board answer nobody, or answer again.
func (b *board) deaf(is bool) error {
	if is {
		return b.cmd.Process.Signal(syscall.SIGSTOP)
	}
	return b.cmd.Process.Signal(syscall.SIGCONT)
}

// broken returns errors of the board's switch.
func (b *board) broken() []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.errs
}
