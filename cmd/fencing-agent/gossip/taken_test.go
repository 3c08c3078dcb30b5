package gossip

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// If another agent of this node has the port, the start ends. If another program has it, or an agent that was killed
// and hangs, the agent waits.
func TestPortThatIsTaken(t *testing.T) {
	for name, c := range map[string]struct {
		program, status string
		ends            bool
		says            string
	}{
		"another agent":        {"fencing-agent", "Name:\tfencing-agent\nState:\tS (sleeping)\nSigPnd:\t0000000000000000\n", true, "fencing-agent (process 77) has it"},
		"one that was killed":  {"fencing-agent", "Name:\tfencing-agent\nState:\tD (disk sleep)\nSigPnd:\t0000000000000100\n", false, "which was killed and cannot exit"},
		"one that is a zombie": {"fencing-agent", "Name:\tfencing-agent\nState:\tZ (zombie)\nSigPnd:\t0000000000000000\n", false, "which was killed and cannot exit"},
		"another program":      {"speaker", "Name:\tspeaker\nState:\tS (sleeping)\nSigPnd:\t0000000000000000\n", false, "speaker (process 77) has it"},
	} {
		proc := t.TempDir()
		for file, text := range map[string]string{
			"net/udp": "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
				"   1: 0100000A:1F0A 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0\n",
			"77/comm": c.program + "\n", "77/status": c.status, "77/fd/none": "",
		} {
			path := filepath.Join(proc, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("socket:[4711]", filepath.Join(proc, "77/fd/5")); err != nil {
			t.Fatal(err)
		}
		err := takenBy(proc, netip.MustParseAddrPort("10.0.0.1:7946"), syscall.EADDRINUSE)
		wrong := new(wrongError)
		if errors.As(err, &wrong) != c.ends || !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, ends the start: %v", name, err, errors.As(err, &wrong))
		}
	}
}
