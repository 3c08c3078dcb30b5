package cluster

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// What a person types wrong is answered with what there is, over the socket, too.
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
		"power-off node-3": "node-3 has no power",
		"boot node-3":      "there is no node-3",
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
