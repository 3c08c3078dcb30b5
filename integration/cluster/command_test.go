package cluster

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// If a person types something wrong, the answer names the right words, over the socket, too.
func TestCommandsThatCannotBe(t *testing.T) {
	c := &Cluster{config: Config{Nodes: 2}}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		c.Serve(t.Context(), l)
		close(ended)
	}()
	for words, want := range map[string]string{
		"cutt node-1":      `unknown command "cutt"; there are:`,
		"cut":              "usage: cut NODE [NETWORK...]",
		"power-off node-1": "node-1 has no power",
		"power-off node-3": "there is no node-3",
		"freeze node-3":    "there is no node-3",
		"boot node-3":      "there is no node-3",
		"reset node-1":     "node-1 has no power",
		"reset node-3":     "there is no node-3",
		"lose-lun":         "usage: lose-lun NODE...",
		"lose-lun node-3":  "there is no node-3",
		"cut node-1 san":   "there is no network san",
		"run node-1":       "run: give a command",
	} {
		if out, err := Ask(socket, strings.Fields(words)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v, want %q", words, out, err, want)
		}
	}
	l.Close()
	<-ended
	for name := range verbs {
		if !strings.Contains(Verbs(), "  "+name+" ") {
			t.Errorf("help has no %s", name)
		}
	}
}

// Guard: the last output of an agent can be many lines of its log, and the table has only one line for each node.
func TestBrief(t *testing.T) {
	for text, want := range map[string]string{
		"Running, ready true, restarts 0":                       "Running, ready true, restarts 0",
		"Running, last ended: {\n}\n, ready true, restarts 1":   "Running, last ended: { } , ready true, restarts 1",
		"Running, " + strings.Repeat("é", 200) + ", restarts 1": "Running, " + strings.Repeat("é", 41) + " ... " + strings.Repeat("é", 38) + ", restarts 1",
	} {
		if got := brief(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
